// SPDX-License-Identifier: Apache-2.0
// How two ends of this make know each other, and what they say to each other alone.
//
// Seven bits of the BTH behind AckReq are reserved: senders of other make leave them 0, receivers
// must ignore them, and the ICRC covers them. A requester that knows selective repeat marks its
// requests there until a response comes without a mark; then it never does again. A responder that
// knows it marks its responses to marked requests and no others. So no end of another make is
// answered differently, and what it need not look at is all that it is sent besides.
//
// A marked sequence NAK names one hole where others have the MSN. Marks of requests count rounds:
// what responses repeat of them tells which resends must have arrived by now.
//
// Responses to READs and atomics have no hole to name: the requester sees by a later response which
// ones are lost, and asks by a marked READ request for a part of whole packets, which others would
// drop. A READ that may not have been executed is never asked for in part: its length tells where
// the PSNs of the next request begin.
#pragma once

#include <cstdint>

#include "pipeline/transport/packet_set.h"

namespace uroce::transport {

// Marks are different in both directions, since a peer might send back what it got.
inline constexpr uint8_t kMarkKindMask = 0x60;
inline constexpr uint8_t kMarkRoundMask = 0x1f;
inline constexpr uint8_t kMarkRequest = 0x20;
inline constexpr uint8_t kMarkResponse = 0x40;

constexpr bool IsRequestMark(uint8_t mark) { return (mark & kMarkKindMask) == kMarkRequest; }
constexpr bool IsResponseMark(uint8_t mark) { return (mark & kMarkKindMask) == kMarkResponse; }

/// Packets that the responder misses: `packets` of them from `offset` packets behind the PSN of the
/// NAK on. None: it wants all from that PSN on again, as any responder does (go-back-N).
struct Hole {
  static constexpr uint32_t kFieldBits = 12;
  static constexpr uint32_t kFieldMask = (1u << kFieldBits) - 1;
  static_assert(PacketSet::kWindow <= kFieldMask);

  uint32_t offset = 0;
  uint32_t packets = 0;

  /// The 24 bits that travel in place of the MSN.
  constexpr uint32_t Packed() const { return offset << kFieldBits | packets; }
  static constexpr Hole From(uint32_t packed) {
    return {.offset = packed >> kFieldBits & kFieldMask, .packets = packed & kFieldMask};
  }
};

}  // namespace uroce::transport
