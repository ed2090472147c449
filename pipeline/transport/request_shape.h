// SPDX-License-Identifier: Apache-2.0
// How a message becomes requests: the path MTU that splits it, the opcode of each packet, and what
// an opcode tells the responder.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// The longest message that the headers can name (docs/protocol/transport.md, section 12).
inline constexpr uint32_t kMaxMessageBytes = 1u << 31;

/// Payload bytes of a full packet: a power of two, 256 .. 4096 on the wire.
class PathMtu {
 public:
  constexpr PathMtu() = default;
  constexpr explicit PathMtu(uint32_t size_bytes)
      : shift_(static_cast<uint8_t>(std::bit_width(size_bytes | 1) - 1)), bytes_(1u << shift_) {}
  constexpr uint32_t bytes() const { return bytes_; }

  /// The number of packets of a message: ceil(length_bytes / bytes()), 1 for an empty message.
  /// Range: length_bytes <= 2^31.
  constexpr uint32_t PacketsOf(uint32_t length_bytes) const {
    return length_bytes <= bytes_ ? 1 : (length_bytes + bytes_ - 1) >> shift_;
  }
  /// Where the payload of packet `index` of a message starts.
  constexpr uint32_t OffsetOf(uint32_t index) const { return index << shift_; }
  /// The payload of the next packet when `remaining_bytes` are left.
  constexpr uint32_t Take(uint32_t remaining_bytes) const {
    return remaining_bytes < bytes() ? remaining_bytes : bytes();
  }

 private:
  uint8_t shift_ = 10;
  uint32_t bytes_ = 1u << 10;  ///< Stored, because each packet reads it several times.
};

/// The kind and position of a request packet, for the responder. Eight bytes, so that it is copied
/// in one piece.
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

// ---- opcodes of send works ----

constexpr bool IsWrite(WorkOpcode opcode) {
  return opcode == WorkOpcode::kWrite || opcode == WorkOpcode::kWriteWithImm;
}

/// The opcode in the completion of a send work.
constexpr WcOpcode CompletionOpcode(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::kWrite:
    case WorkOpcode::kWriteWithImm:
      return WcOpcode::kWrite;
    case WorkOpcode::kSend:
    case WorkOpcode::kSendWithImm:
    case WorkOpcode::kSendWithInvalidate:
      return WcOpcode::kSend;
    case WorkOpcode::kRead:
      return WcOpcode::kRead;
    case WorkOpcode::kCompareSwap:
      return WcOpcode::kCompareSwap;
    case WorkOpcode::kFetchAdd:
      return WcOpcode::kFetchAdd;
    case WorkOpcode::kLocalInvalidate:
      return WcOpcode::kLocalInvalidate;
    case WorkOpcode::kBindWindow:
      return WcOpcode::kBindWindow;
    case WorkOpcode::kAtomicWrite:
      return WcOpcode::kAtomicWrite;
  }
  return WcOpcode::kSend;  // A value outside the enum came from a hostile ring.
}

/// The BTH opcode of a packet of a SEND or WRITE. `first`, `last`: it opens or ends the message
/// (docs/protocol/wire-format.md, section 5).
constexpr wire::Opcode MessageOpcode(WorkOpcode work, bool first, bool last) {
  using wire::Opcode;
  if (!last) {
    if (IsWrite(work)) return first ? Opcode::kWriteFirst : Opcode::kWriteMiddle;
    return first ? Opcode::kSendFirst : Opcode::kSendMiddle;
  }
  switch (work) {
    case WorkOpcode::kWrite:
      return first ? Opcode::kWriteOnly : Opcode::kWriteLast;
    case WorkOpcode::kWriteWithImm:
      return first ? Opcode::kWriteOnlyWithImm : Opcode::kWriteLastWithImm;
    case WorkOpcode::kSendWithImm:
      return first ? Opcode::kSendOnlyWithImm : Opcode::kSendLastWithImm;
    case WorkOpcode::kSendWithInvalidate:
      return first ? Opcode::kSendOnlyWithInvalidate : Opcode::kSendLastWithInvalidate;
    case WorkOpcode::kSend:
    case WorkOpcode::kRead:
    case WorkOpcode::kCompareSwap:
    case WorkOpcode::kFetchAdd:
    case WorkOpcode::kLocalInvalidate:
    case WorkOpcode::kBindWindow:
    case WorkOpcode::kAtomicWrite:
      break;
  }
  return first ? Opcode::kSendOnly : Opcode::kSendLast;
}

}  // namespace uroce::transport
