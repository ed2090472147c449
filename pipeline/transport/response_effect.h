// SPDX-License-Identifier: Apache-2.0
// The effect of a READ response or atomic acknowledgement on memory (docs/protocol/transport.md,
// section 3.2). Inline, because each response calls it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pipeline/transport/effect.h"
#include "pipeline/transport/path_mtu.h"
#include "pipeline/transport/psn_distance.h"
#include "pipeline/transport/send_ring.h"
#include "pipeline/wire/aeth_syndrome.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {
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
