// SPDX-License-Identifier: Apache-2.0
// Which packets behind a hole a responder has: the shell keeps them, and gives them back in their
// turn.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "pipeline/transport/packet_set.h"
#include "pipeline/transport/path_mtu.h"
#include "pipeline/wire/kept_map.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

static_assert(PacketSet::kWindow <= wire::kMaxKeptPackets);

/// How far behind ePSN a responder keeps packets: its map fits a packet of the path MTU.
constexpr uint32_t KeptWindow(PathMtu mtu) {
  return std::min(PacketSet::kWindow, (mtu.bytes() - wire::kKeptMapHeaderBytes) * 8);
}

/// Pure, of fixed size, owned by a Responder.
///
/// PSNs: expected_ (ePSN) .. end_ (nothing behind it has come). Members lie in between, less than a
/// KeptWindow behind ePSN. A READ request takes the PSNs of its responses, and all of them are
/// members.
class KeptPackets {
 public:
  /// Nothing has come ahead of `expected`.
  void Start(wire::Psn expected) {
    kept_.Clear();
    expected_ = end_ = expected;
  }
  /// Something has come ahead of the PSN expected.
  bool active() const { return end_ != expected_; }
  /// The shell keeps some of it.
  bool any() const { return !kept_.empty(); }
  bool Contains(wire::Psn psn) const { return kept_.Contains(psn); }
  /// The packet expected is kept: it is its turn.
  bool is_next_kept() const { return Contains(expected_); }

  /// The shell keeps the packet, which takes `packets` PSNs. Range: all within the window.
  void Insert(wire::Psn psn, uint32_t packets);
  /// It came and is not kept: it must come again.
  void NoteSeen(wire::Psn psn);
  /// It has been given back.
  void Erase(wire::Psn psn) { kept_.Erase(psn); }
  /// All before `expected` was executed.
  void Advance(wire::Psn expected);

  /// The map that tells a requester of all this. Valid until the next call. Range: active().
  std::span<const uint8_t> Map();

 private:
  PacketSet kept_;
  wire::Psn expected_;
  wire::Psn end_;
  std::array<uint8_t, wire::kMaxKeptMapBytes> map_;
};

}  // namespace uroce::transport
