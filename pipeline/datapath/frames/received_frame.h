// SPDX-License-Identifier: Apache-2.0
// Reads a received frame in an mbuf, which is always one segment.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <span>

#include "pipeline/wire/decode.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

/// The bits of a tag that hold the VLAN; 0: no VLAN (docs/protocol/wire-format.md, section 1).
constexpr uint16_t kVlanIdMask = 0xfff;

inline std::span<const uint8_t> BytesOf(const rte_mbuf& frame) {
  return {rte_pktmbuf_mtod(&frame, const uint8_t*), frame.data_len};
}

/// Decodes a frame again that was decoded and checked when it came. False: it cannot be decoded
/// this time.
inline bool DecodeAgain(const rte_mbuf& frame, wire::Packet& packet, wire::FrameView& view) {
  return wire::Decode(BytesOf(frame), packet, view) == wire::DecodeResult::kOk;
}

}  // namespace uroce::datapath
