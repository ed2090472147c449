// SPDX-License-Identifier: Apache-2.0
// The request packets of a send work, and the effect on memory of the responses to them. Inline,
// because each packet calls it (docs/protocol/transport.md, sections 3.1 and 3.2).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "pipeline/transport/effect.h"
#include "pipeline/transport/request_shape.h"
#include "pipeline/transport/send_queue.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/acknowledgement.h"
#include "pipeline/wire/packet.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// Splits SENDs and WRITEs of reliable and unreliable connections into packets: fills in packet
/// `index` of a SEND or WRITE `work`, except PSN, AckReq, immediate data and the key to invalidate.
/// Opcodes are those of reliable connections. Returns true for the last packet. Source:
/// docs/protocol/transport.md, section 3.1, steps 1 and 5.
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

// ---- requests of a reliable connection (docs/protocol/transport.md, section 3.1) ----

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

// ---- responses to READs and atomics (docs/protocol/transport.md, section 3.2) ----

namespace internal {

/// How the payload of a READ response fits the rest of its READ. FIRST and MIDDLE are accepted
/// alike, because some peers begin a replayed READ with FIRST and others continue with MIDDLE.
/// ONLY and LAST are accepted alike too.
enum class ResponseFit : uint8_t { kFits, kWrongOpcode, kWrongLength };

inline ResponseFit FitOf(wire::Opcode opcode, size_t size, uint32_t remaining, uint32_t mtu_bytes) {
  const wire::Opcode operation = wire::OperationOf(opcode);
  const bool more = operation == wire::Opcode::kReadResponseFirst ||
                    operation == wire::Opcode::kReadResponseMiddle;
  if (more != (remaining > mtu_bytes)) return ResponseFit::kWrongOpcode;
  return size == (more ? mtu_bytes : remaining) ? ResponseFit::kFits : ResponseFit::kWrongLength;
}

}  // namespace internal

/// Whether an AETH is a positive acknowledgement.
inline bool IsAck(const wire::Aeth& aeth) {
  return (aeth.syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck;
}

/// Whether a data response is of the kind that `work` expects, and no NAK.
inline bool IsAnswer(const wire::TransportHeader& header, const HeldWork& work) {
  const wire::Opcode operation = wire::OperationOf(header.opcode);
  const bool has_aeth = operation != wire::Opcode::kReadResponseMiddle;
  if (has_aeth && !IsAck(header.aeth)) return false;
  if (operation == wire::Opcode::kAtomicAcknowledge) return work.is_atomic();
  return work.is_read() || work.is_atomic_write();
}

/// Fills in the effect of a response to `work`. Needs IsAnswer. Returns the status of the work.
inline WcStatus PlaceResponse(const HeldWork& work, PathMtu mtu, const wire::Packet& packet,
                              Effect& effect) {
  const wire::TransportHeader& header = packet.header;
  if (work.is_atomic()) {
    effect.kind = Effect::Kind::kPlaceOriginal;
    effect.local = {.slot = work.slot, .offset_bytes = 0, .length_bytes = 8};
    effect.value = header.atomic_original;
    return WcStatus::kSuccess;
  }
  const uint32_t offset = mtu.OffsetOf(Distance(work.first_psn, header.psn));
  // The answer to an ATOMIC WRITE is that of a READ of no bytes.
  const uint32_t remaining = work.is_read() ? work.length_bytes - offset : 0;
  const size_t size = packet.payload.size();
  switch (internal::FitOf(header.opcode, size, remaining, mtu.bytes())) {
    case internal::ResponseFit::kWrongLength:
      return WcStatus::kLocLenErr;
    case internal::ResponseFit::kWrongOpcode:
      return WcStatus::kBadRespErr;
    case internal::ResponseFit::kFits:
      break;
  }
  if (size == 0) return WcStatus::kSuccess;
  effect.kind = Effect::Kind::kPlaceSend;
  effect.local = {
      .slot = work.slot, .offset_bytes = offset, .length_bytes = static_cast<uint32_t>(size)};
  return WcStatus::kSuccess;
}

}  // namespace uroce::transport
