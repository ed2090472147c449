// SPDX-License-Identifier: Apache-2.0
// The request packets of a work on a reliable connection (docs/protocol/transport.md, section 3.1).
#pragma once

#include <algorithm>
#include <cstdint>

#include "pipeline/transport/effect.h"
#include "pipeline/transport/message_packet.h"
#include "pipeline/transport/path_mtu.h"
#include "pipeline/transport/psn_distance.h"
#include "pipeline/transport/send_ring.h"
#include "pipeline/wire/opcode.h"

namespace uroce::transport {

/// One in this many packets of a long message asks for an ACK, so that the window moves before
/// the message ends.
inline constexpr uint32_t kAckRequestInterval = 32;
inline constexpr uint32_t kAtomicBytes = 8;

namespace internal {

inline uint32_t FillMessage(const HeldWork& work, PathMtu mtu, uint32_t sent, TxPacket& packet) {
  const bool last = FillMessagePacket(work, mtu, sent, packet);
  wire::TransportHeader& header = packet.header;
  header.ack_request = last || sent % kAckRequestInterval == kAckRequestInterval - 1;
  header.immediate = work.immediate_or_rkey;
  header.invalidate_rkey = Rkey(work.immediate_or_rkey);
  return 1;
}

inline uint32_t FillRead(const HeldWork& work, PathMtu mtu, uint32_t sent, TxPacket& packet) {
  // A resent READ asks for the rest from its first missing packet on (docs/protocol/transport.md,
  // section 3.4).
  const uint32_t offset = mtu.OffsetOf(sent);
  wire::TransportHeader& header = packet.header;
  header.opcode = wire::Opcode::kReadRequest;
  header.solicited = false;
  header.ack_request = true;
  header.reth = {
      .va = work.remote_va + offset, .rkey = work.rkey, .length_bytes = work.length_bytes - offset};
  packet.source = TxPacket::Source::kNone;
  return work.packets - sent;
}

inline uint32_t FillAtomic(const HeldWork& work, TxPacket& packet) {
  const bool swaps = work.opcode == WorkOpcode::kCompareSwap;
  wire::TransportHeader& header = packet.header;
  header.opcode = swaps ? wire::Opcode::kCompareSwap : wire::Opcode::kFetchAdd;
  header.solicited = false;
  header.ack_request = true;
  header.atomic = {.va = work.remote_va,
                   .rkey = work.rkey,
                   .swap_add = swaps ? work.swap : work.compare_add,
                   .compare = swaps ? work.compare_add : 0};
  packet.source = TxPacket::Source::kNone;
  return 1;
}

inline uint32_t FillAtomicWrite(const HeldWork& work, TxPacket& packet) {
  wire::TransportHeader& header = packet.header;
  header.opcode = wire::Opcode::kAtomicWrite;
  header.solicited = false;
  header.ack_request = true;
  header.reth = {.va = work.remote_va, .rkey = work.rkey, .length_bytes = kAtomicBytes};
  packet.source = TxPacket::Source::kSend;
  packet.local = {.slot = work.slot, .offset_bytes = 0, .length_bytes = kAtomicBytes};
  packet.following_bytes = 0;
  return 1;
}

}  // namespace internal

/// Fills in the packet at `psn` of `work`, except the fields of a retransmission. AckReq is set
/// where the work itself asks for it. Returns how many PSNs the packet takes. Inline, because each
/// packet calls it.
inline uint32_t FillRequest(const HeldWork& work, PathMtu mtu, wire::Psn psn, TxPacket& packet) {
  packet.header.psn = psn;
  packet.header.xrc_srqn = work.xrc_srqn;
  const uint32_t sent = Distance(work.first_psn, psn);
  if (!work.is_read_or_atomic()) return internal::FillMessage(work, mtu, sent, packet);
  if (work.is_read()) return internal::FillRead(work, mtu, sent, packet);
  return work.is_atomic() ? internal::FillAtomic(work, packet)
                          : internal::FillAtomicWrite(work, packet);
}

/// Fills in a request for a part of a READ: only the `packets` responses from `psn` on, or as many
/// as are left. Returns how many PSNs it takes.
inline uint32_t FillPartOfRead(const HeldWork& work, PathMtu mtu, wire::Psn psn, uint32_t packets,
                               TxPacket& packet) {
  const uint32_t asked = std::min(packets, FillRequest(work, mtu, psn, packet));
  uint32_t& length_bytes = packet.header.reth.length_bytes;
  length_bytes = std::min(length_bytes, asked * mtu.bytes());
  return asked;
}

}  // namespace uroce::transport
