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

/// The set of packets behind a hole. Pure, of fixed size, owned by a Responder.
///
/// PSNs: expected_ (ePSN) .. end_ (no packet from there on has come). Members lie in between, less
/// than a KeptWindow ahead of ePSN. A READ request takes the PSNs of its responses, and all of them
/// are members.
class KeptPackets {
 public:
  /// Empties the set; `expected` becomes ePSN.
  void Start(wire::Psn expected) {
    kept_.Clear();
    expected_ = end_ = expected;
  }
  /// True when a packet ahead of ePSN has come.
  bool active() const { return end_ != expected_; }
  /// True when the shell keeps at least one packet.
  bool any() const { return !kept_.empty(); }
  bool Contains(wire::Psn psn) const { return kept_.Contains(psn); }
  /// True when the packet at ePSN is kept: its turn has come.
  bool is_next_kept() const { return Contains(expected_); }

  /// The shell keeps the packet `psn`, which takes `packets` PSNs, all within the window.
  void Insert(wire::Psn psn, uint32_t packets);
  /// The packet `psn` came and is not kept: it must come again.
  void NoteSeen(wire::Psn psn);
  /// The shell has given back the packet `psn`.
  void Erase(wire::Psn psn) { kept_.Erase(psn); }
  /// Moves ePSN to `expected`: all packets before were executed.
  void Advance(wire::Psn expected);

  /// The map of a selective acknowledgement. Valid until the next call. Needs active().
  std::span<const uint8_t> Map();

 private:
  PacketSet kept_;
  wire::Psn expected_;
  wire::Psn end_;
  std::array<uint8_t, wire::kMaxKeptMapBytes> map_;
};

/// Selective repeat at a responder: whether the requester has agreed to it, and what is kept behind
/// a hole in the PSNs: a KeptPackets, allocated when selective repeat is offered, and copies of the
/// two facts that each packet needs to know of it. Pure, owned by a Responder.
class BehindHole {
 public:
  /// `offered`: the requester may agree to selective repeat. Otherwise nothing is ever kept.
  explicit BehindHole(bool offered) : kept_(offered ? std::make_unique<KeptPackets>() : nullptr) {}

  /// Sets whether the requester understands selective acknowledgements.
  void SetSelective(bool agreed) { selective_ = agreed && kept_ != nullptr; }
  bool is_selective() const { return selective_; }

  /// Whether a packet ahead of ePSN has come.
  bool is_open() const { return open_; }
  /// Whether the packet at ePSN is kept: its turn has come.
  bool is_next_kept() const { return next_kept_; }
  bool keeps() const { return kept_ != nullptr && kept_->any(); }

  /// Forgets what was kept; `expected` becomes ePSN.
  void Start(wire::Psn expected) {
    if (kept_ == nullptr) return;
    kept_->Start(expected);
    Look();
  }

  // ---- as KeptPackets has them; the requester may have agreed ----
  bool Contains(wire::Psn psn) const { return kept_->Contains(psn); }
  void Insert(wire::Psn psn, uint32_t packets) {
    kept_->Insert(psn, packets);
    Look();
  }
  void NoteSeen(wire::Psn psn) {
    kept_->NoteSeen(psn);
    Look();
  }
  void Erase(wire::Psn psn) {
    kept_->Erase(psn);
    Look();
  }
  void Advance(wire::Psn expected) {
    kept_->Advance(expected);
    Look();
  }
  std::span<const uint8_t> Map() { return kept_->Map(); }

 private:
  void Look() {
    open_ = kept_->active();
    next_kept_ = kept_->is_next_kept();
  }

  const std::unique_ptr<KeptPackets> kept_;
  bool selective_ = false;
  bool open_ = false;       ///< kept_->active()
  bool next_kept_ = false;  ///< kept_->is_next_kept()
};

}  // namespace uroce::transport
