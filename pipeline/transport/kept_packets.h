// SPDX-License-Identifier: Apache-2.0
// Selective repeat at a responder: the set of packets that it has behind a hole in the PSNs. The
// shell keeps the packets themselves, and gives each back in its turn.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "pipeline/transport/packet_set.h"
#include "pipeline/transport/request_shape.h"
#include "pipeline/wire/acknowledgement.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

static_assert(PacketSet::kWindow <= wire::kMaxKeptPackets);

/// How many PSNs from ePSN on a responder keeps: their map fits into a packet of the path MTU.
constexpr uint32_t KeptWindow(PathMtu mtu) {
  return std::min(PacketSet::kWindow, (mtu.bytes() - wire::kKeptMapHeaderBytes) * 8);
}

/// The packets behind a hole in the PSNs, and whether the requester has agreed to selective repeat.
/// Pure, of fixed size, owned by a Responder. The set is allocated only when selective repeat is
/// offered: otherwise nothing is ever kept.
///
/// PSNs: expected_ (ePSN) .. end_ (no packet from there on has come). Members lie in between, less
/// than a KeptWindow ahead of ePSN. A READ request takes the PSNs of its responses, and all of them
/// are members.
class KeptPackets {
 public:
  /// `offered`: the requester may agree to selective repeat.
  explicit KeptPackets(bool offered) : set_(offered ? std::make_unique<Set>() : nullptr) {}

  /// Sets whether the requester understands selective acknowledgements.
  void SetSelective(bool agreed) { selective_ = agreed && set_ != nullptr; }
  bool is_selective() const { return selective_; }
  /// Forgets what was kept; `expected` becomes ePSN.
  void Start(wire::Psn expected);

  /// Whether a packet ahead of ePSN has come.
  bool is_open() const { return open_; }
  /// Whether the packet at ePSN is kept: its turn has come.
  bool is_next_kept() const { return next_kept_; }
  /// Whether the shell keeps at least one packet.
  bool keeps() const { return set_ != nullptr && !set_->psns.empty(); }

  // ---- needs selective repeat to be offered ----
  bool Contains(wire::Psn psn) const { return set_->psns.Contains(psn); }
  /// The shell keeps the packet `psn`, which takes `packets` PSNs, all within the window.
  void Insert(wire::Psn psn, uint32_t packets);
  /// The packet `psn` came and is not kept: it must come again.
  void NoteSeen(wire::Psn psn);
  /// The shell has given back the packet `psn`.
  void Erase(wire::Psn psn);
  /// Moves ePSN to `expected`: all packets before were executed.
  void Advance(wire::Psn expected);
  /// The map of a selective acknowledgement. Valid until the next call. Needs is_open().
  std::span<const uint8_t> Map();

 private:
  struct Set {
    PacketSet psns;
    std::array<uint8_t, wire::kMaxKeptMapBytes> map;
  };
  /// Keeps what each packet needs to know beside the set, which few packets touch.
  void Look() {
    open_ = end_ != expected_;
    next_kept_ = Contains(expected_);
  }

  const std::unique_ptr<Set> set_;
  wire::Psn expected_;
  wire::Psn end_;
  bool selective_ = false;
  bool open_ = false;
  bool next_kept_ = false;
};

}  // namespace uroce::transport
