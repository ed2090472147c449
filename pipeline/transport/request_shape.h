// SPDX-License-Identifier: Apache-2.0
// Request opcodes, taken apart for the responder.
#pragma once

#include <array>
#include <cstdint>

#include "pipeline/wire/opcode.h"

namespace uroce::transport {

/// The kind and position of a request packet. Eight bytes, so that it is copied in one piece.
struct alignas(8) RequestShape {
  enum class Kind : uint8_t { kUnknown, kSend, kWrite, kRead, kAtomic, kAtomicWrite };
  Kind kind = Kind::kUnknown;
  bool first = false;  ///< Opens a message.
  bool last = false;   ///< Ends a message.
  bool immediate = false;
  bool invalidate = false;

  /// Whether the packet takes a receive work that its message does not hold already.
  constexpr bool takes_receive() const {
    return (kind == Kind::kSend && first) || (kind == Kind::kWrite && immediate);
  }
};

namespace internal {

constexpr RequestShape MakeShape(wire::Opcode opcode) {
  using Kind = RequestShape::Kind;
  using wire::Opcode;
  switch (wire::OperationOf(opcode)) {
    case Opcode::kSendFirst:
      return {.kind = Kind::kSend, .first = true};
    case Opcode::kSendMiddle:
      return {.kind = Kind::kSend};
    case Opcode::kSendLast:
      return {.kind = Kind::kSend, .last = true};
    case Opcode::kSendLastWithImm:
      return {.kind = Kind::kSend, .last = true, .immediate = true};
    case Opcode::kSendLastWithInvalidate:
      return {.kind = Kind::kSend, .last = true, .invalidate = true};
    case Opcode::kSendOnly:
      return {.kind = Kind::kSend, .first = true, .last = true};
    case Opcode::kSendOnlyWithImm:
      return {.kind = Kind::kSend, .first = true, .last = true, .immediate = true};
    case Opcode::kSendOnlyWithInvalidate:
      return {.kind = Kind::kSend, .first = true, .last = true, .invalidate = true};
    case Opcode::kWriteFirst:
      return {.kind = Kind::kWrite, .first = true};
    case Opcode::kWriteMiddle:
      return {.kind = Kind::kWrite};
    case Opcode::kWriteLast:
      return {.kind = Kind::kWrite, .last = true};
    case Opcode::kWriteLastWithImm:
      return {.kind = Kind::kWrite, .last = true, .immediate = true};
    case Opcode::kWriteOnly:
      return {.kind = Kind::kWrite, .first = true, .last = true};
    case Opcode::kWriteOnlyWithImm:
      return {.kind = Kind::kWrite, .first = true, .last = true, .immediate = true};
    case Opcode::kReadRequest:
      return {.kind = Kind::kRead, .first = true, .last = true};
    case Opcode::kCompareSwap:
    case Opcode::kFetchAdd:
      return {.kind = Kind::kAtomic, .first = true, .last = true};
    case Opcode::kAtomicWrite:
      return {.kind = Kind::kAtomicWrite, .first = true, .last = true};
    default:
      return {};
  }
}

inline constexpr auto kShapes = [] {
  std::array<RequestShape, 256> shapes;
  for (uint32_t i = 0; i < shapes.size(); ++i) shapes[i] = MakeShape(wire::Opcode(i));
  return shapes;
}();

}  // namespace internal

/// The shape of `opcode` of any service; kUnknown when it is no request. A table, because every
/// packet needs it, some twice.
constexpr const RequestShape& ShapeOf(wire::Opcode opcode) {
  return internal::kShapes[static_cast<uint8_t>(opcode)];
}

/// Whether `opcode` travels from responder to requester.
constexpr bool IsResponse(wire::Opcode opcode) {
  const wire::Opcode operation = wire::OperationOf(opcode);
  return operation >= wire::Opcode::kReadResponseFirst &&
         operation <= wire::Opcode::kAtomicAcknowledge;
}

}  // namespace uroce::transport
