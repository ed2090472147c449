// SPDX-License-Identifier: Apache-2.0
// Splits SENDs and WRITEs of reliable and unreliable connections into packets.
#pragma once

#include <cstdint>

#include "pipeline/transport/effect.h"
#include "pipeline/transport/path_mtu.h"
#include "pipeline/transport/request_opcode.h"
#include "pipeline/transport/work.h"

namespace uroce::transport {

/// Fills in packet `index` of a SEND or WRITE `work`, except PSN, AckReq, immediate data and the
/// key to invalidate. Opcodes are those of reliable connections. Returns true for the last packet.
/// Source: docs/protocol/transport.md, section 3.1, steps 1 and 5.
template <typename Work>
bool FillMessagePacket(const Work& work, PathMtu mtu, uint32_t index, TxPacket& packet) {
  const uint32_t offset = mtu.OffsetOf(index);
  const uint32_t remaining = work.length_bytes - offset;
  const bool last = remaining <= mtu.bytes();
  const uint32_t size = mtu.Take(remaining);
  wire::TransportHeader& header = packet.header;
  header.opcode = MessageOpcode(work.opcode, index == 0, last);
  header.solicited = last && work.solicited && work.opcode != WorkOpcode::kWrite;
  if (index == 0 && IsWrite(work.opcode)) {
    header.reth.va = work.remote_va;
    header.reth.rkey = work.rkey;
    header.reth.length_bytes = work.length_bytes;
  }
  packet.source = size == 0 ? TxPacket::Source::kNone : TxPacket::Source::kSend;
  packet.local = {.slot = work.slot, .offset_bytes = offset, .length_bytes = size};
  packet.following_bytes = remaining - size;
  return last;
}

}  // namespace uroce::transport
