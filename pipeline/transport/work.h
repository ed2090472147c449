// SPDX-License-Identifier: Apache-2.0
// Work requests as the transport core sees them, how they become requests, the accesses to memory
// that packets ask for, the completions, and why a packet was refused or sent again. Scatter/gather
// lists, inline bytes and lkeys stay with the shell: the core names local bytes by work slot.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// Operation of a send work request. Values are those of ibv_wr_opcode.
enum class WorkOpcode : uint8_t {
  kWrite = 0,
  kWriteWithImm = 1,
  kSend = 2,
  kSendWithImm = 3,
  kRead = 4,
  kCompareSwap = 5,
  kFetchAdd = 6,
  kLocalInvalidate = 7,
  kBindWindow = 8,
  kSendWithInvalidate = 9,
  kAtomicWrite = 15,
};

/// Whether `opcode` is a value that a program may use.
constexpr bool IsKnown(WorkOpcode opcode) {
  return opcode <= WorkOpcode::kSendWithInvalidate || opcode == WorkOpcode::kAtomicWrite;
}

/// Whether the operation only changes keys of this side: no packet is sent for it.
constexpr bool IsLocal(WorkOpcode opcode) {
  return opcode == WorkOpcode::kLocalInvalidate || opcode == WorkOpcode::kBindWindow;
}

/// One entry of a send queue. `slot` is its free-running index in the SQ (wraps at 2^32): the
/// shell finds the scatter/gather list by it, and the completion repeats it.
struct SendWork {
  uint64_t wr_id = 0;
  uint32_t slot = 0;
  WorkOpcode opcode = WorkOpcode::kSend;
  bool signaled = false;
  bool solicited = false;
  bool fence = false;
  /// Sum of the list, <= 2^31. 8 for atomics, ATOMIC WRITE too. Above 2^31: LOC_LEN_ERR.
  uint32_t length_bytes = 0;
  uint32_t immediate = 0;  ///< Bytes of ImmDt unchanged.
  Rkey invalidate_rkey;    ///< SEND with invalidate: the peer's key. Local invalidate: ours.
  Rkey rkey;
  uint64_t remote_va = 0;
  uint64_t compare_add = 0;
  uint64_t swap = 0;
  uint32_t xrc_srqn = 0;  ///< XRC: the SRQ at the target, 24 bits.
  // Datagrams: the shell's number of the address handle, and the destination queue pair.
  uint32_t path = 0;
  Qpn remote_qpn;
  uint32_t remote_qkey = 0;
  /// True when the shell found the entry invalid while copying it: it completes with LOC_QP_OP_ERR.
  bool malformed = false;
};

/// One entry of a receive queue, the queue pair's own or a shared one.
struct ReceiveWork {
  uint64_t wr_id = 0;
  uint32_t slot = 0;          ///< Free-running index in its queue.
  uint32_t length_bytes = 0;  ///< Room for a message: sum of the list.
  uint32_t queue = 0;         ///< The shell's number of the shared queue that it is from.
  bool malformed = false;
};

/// Status of a completion. Values are those of ibv_wc_status.
enum class WcStatus : uint8_t {
  kSuccess = 0,
  kLocLenErr = 1,
  kLocQpOpErr = 2,
  kLocProtErr = 4,
  kWrFlushErr = 5,
  kMwBindErr = 6,
  kBadRespErr = 7,
  kLocAccessErr = 8,
  kRemInvReqErr = 9,
  kRemAccessErr = 10,
  kRemOpErr = 11,
  kRetryExcErr = 12,
  kRnrRetryExcErr = 13,
  kFatalErr = 19,
  kGeneralErr = 21,
};

/// Opcode of a completion. Values are those of ibv_wc_opcode.
enum class WcOpcode : uint8_t {
  kSend = 0,
  kWrite = 1,
  kRead = 2,
  kCompareSwap = 3,
  kFetchAdd = 4,
  kBindWindow = 5,
  kLocalInvalidate = 6,
  kAtomicWrite = 9,
  kReceive = 128,
  kReceiveWriteWithImm = 129,
};

/// A finished work request, in completion order of its queue.
struct Completion {
  uint64_t wr_id = 0;
  uint32_t slot = 0;
  bool is_receive = false;
  bool solicited = false;  ///< Receive: SE was set, or the status is an error.
  bool has_immediate = false;
  bool has_invalidate = false;
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;
  uint32_t queue = 0;  ///< Of a receive: ReceiveWork::queue.
  uint32_t length_bytes = 0;
  uint32_t immediate_or_rkey = 0;  ///< Immediate bytes unchanged, or the invalidated rkey.
  // Received datagrams: the source, and the kind of header in front of the payload.
  Qpn source_qpn;
  bool has_grh = false;
  bool is_ipv6 = false;
};

/// Properties of an operation that a requester needs, as bits: looked up once when a work is
/// posted, and tested by one instruction each time the work is considered. A WRITE has none but
/// kExecutable.
struct WorkTraits {
  static constexpr uint8_t kRead = 1;
  static constexpr uint8_t kAtomic = 2;
  static constexpr uint8_t kAtomicWrite = 4;
  static constexpr uint8_t kLocal = 8;          ///< Done on this side alone, without a packet.
  static constexpr uint8_t kTakesReceive = 16;  ///< The responder needs a receive work for it.
  static constexpr uint8_t kFence = 32;
  static constexpr uint8_t kExecutable = 64;  ///< Well formed, with a known opcode.
};

namespace internal {

constexpr uint8_t TraitsOf(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::kWrite:
      return WorkTraits::kExecutable;
    case WorkOpcode::kWriteWithImm:
    case WorkOpcode::kSend:
    case WorkOpcode::kSendWithImm:
    case WorkOpcode::kSendWithInvalidate:
      return WorkTraits::kExecutable | WorkTraits::kTakesReceive;
    case WorkOpcode::kRead:
      return WorkTraits::kExecutable | WorkTraits::kRead;
    case WorkOpcode::kCompareSwap:
    case WorkOpcode::kFetchAdd:
      return WorkTraits::kExecutable | WorkTraits::kAtomic;
    case WorkOpcode::kAtomicWrite:
      return WorkTraits::kExecutable | WorkTraits::kAtomicWrite;
    case WorkOpcode::kLocalInvalidate:
    case WorkOpcode::kBindWindow:
      return WorkTraits::kExecutable | WorkTraits::kLocal;
  }
  return 0;
}

inline constexpr auto kTraits = [] {
  std::array<uint8_t, 256> traits{};
  for (uint32_t i = 0; i < traits.size(); ++i) traits[i] = TraitsOf(WorkOpcode(i));
  return traits;
}();

}  // namespace internal

constexpr uint8_t TraitsOf(const SendWork& work) {
  const uint8_t traits = internal::kTraits[static_cast<uint8_t>(work.opcode)];
  const int fence = work.fence ? WorkTraits::kFence : 0;
  const int malformed = work.malformed ? WorkTraits::kExecutable : 0;
  return static_cast<uint8_t>((traits | fence) & ~malformed);
}

// ---- reports: why a connection refused a packet, resent packets or failed ----
// They tell more than the protocol carries, for captures and for people. Good packets write none of
// them.

/// Why a responder refuses a request with a fatal NAK.
enum class Refusal : uint8_t {
  kNone,
  kOrder,          ///< The opcode does not continue the message.
  kPayloadLength,  ///< The length does not fit the path MTU or the message.
  kMessageLength,  ///< Over 2^31 bytes.
  kRight,          ///< The queue pair does not allow this operation.
  kResources,      ///< More READs and atomics than max_dest_rd_atomic.
  kReceiveLength,  ///< The message is longer than its receive.
  kReceiveEntry,   ///< The posted receive is malformed.
  kAlignment,      ///< Atomic on an address that is no multiple of 8.
  kRemoteKey,      ///< The key does not grant this range.
  kLocalKey,       ///< The receive's own key does not grant its range.
  kInvalidate,     ///< The key may not be invalidated.
};

/// Why a requester sends packets again.
enum class ResendCause : uint8_t {
  kNone,
  kAckTimeout,
  kSequenceNak,
  kRnrNak,         ///< The wait after an RNR NAK has ended.
  kImpliedNak,     ///< The response to a READ or atomic was passed over.
  kSelectiveAck,   ///< A selective ACK reports it missing (pipeline/transport/loss-recovery.md).
  kTailLossProbe,  ///< Nothing has come for some round trips (pipeline/transport/loss-recovery.md).
};

/// A resend: the `number`-th of `limit` retries without progress; number 0: it costs no retry.
struct Resend {
  static constexpr uint8_t kUnlimited = 255;
  ResendCause cause = ResendCause::kNone;
  uint8_t number = 0;
  uint8_t limit = 0;  ///< retry_count or rnr_retry; kUnlimited where rnr_retry is 7.
};

/// Details of a request that was not executed; meaningful when its PacketResult says so.
struct RequestReport {
  bool answered = false;  ///< Duplicate: answered again. Gap: a NAK was asked for.
  uint8_t syndrome = 0;   ///< The syndrome of the NAK.
  Refusal refusal = Refusal::kNone;
};

/// How a connection failed.
struct Failure {
  enum class Side : uint8_t { kNone, kRequester, kResponder };
  Side side = Side::kNone;
  WcStatus status = WcStatus::kSuccess;  ///< Of the work that failed; kSuccess when none failed.
  uint8_t syndrome = 0;                  ///< Of the NAK sent or received; 0 when there was none.
  Refusal refusal = Refusal::kNone;      ///< Meaningful for Side::kResponder.
  wire::Psn psn;                         ///< The oldest unacknowledged PSN, or the refused one.
};

// How a message becomes requests: the path MTU that splits it, the opcode of each packet, and what
// an opcode tells the responder.

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

// The accesses to memory that the transport core asks for, as values. The core resolves no key and
// touches no byte of an application. The shell does so, and reports the outcome.

/// Bytes [offset, offset + length) of the data of one work request, in list order.
struct LocalRange {
  uint32_t slot = 0;  ///< SendWork::slot or ReceiveWork::slot.
  uint32_t offset_bytes = 0;
  uint32_t length_bytes = 0;
};

/// Bytes [va, va + length) under a key that the peer named.
struct RemoteRange {
  Rkey rkey;
  uint64_t va = 0;
  uint32_t length_bytes = 0;
  uint32_t xrc_srqn = 0;  ///< XRC: the SRQ that the request named; its owner's rights apply.
};

/// The right that a remote range needs.
enum class Access : uint8_t { kRemoteRead, kRemoteWrite, kRemoteAtomic };

/// The one access to memory that an accepted packet causes. The shell carries it out and calls
/// RcQueuePair::OnEffectDone with the outcome, or ForgetEffect when the queue pair is reset. Until
/// then it calls nothing else of that queue pair except PollCompletion and queries.
struct Effect {
  enum class Kind : uint8_t {
    kNone,           ///< Nothing to do, and OnEffectDone is not called.
    kPlaceReceive,   ///< Write the payload into `local` of receive work `local.slot`.
    kPlaceSend,      ///< Write a READ response into `local` of send work `local.slot`.
    kPlaceRemote,    ///< Write the payload into `remote` after kCheckRemote's check.
    kCheckRemote,    ///< No bytes: only check `check_length_bytes` from remote.va for `access`.
    kAtomic,         ///< Execute `atomic` on 8 bytes at remote.va; report the original value.
    kPlaceOriginal,  ///< Write `value`, 8 bytes in host order, into `local` of the send work.
    kInvalidate,     ///< No bytes: only invalidate `invalidate_rkey`.
    kKeep,           ///< No bytes: keep the packet until RcQueuePair::PollKept.
  };
  Kind kind = Kind::kNone;
  Access access = Access::kRemoteWrite;
  /// kPlaceReceive: after placing, also invalidate `invalidate_rkey` (SEND with invalidate).
  bool invalidate = false;
  /// kPlaceReceive of a datagram: write the area that wire::GrhArea makes into bytes [0, 40) of the
  /// receive work, even if there is no payload.
  bool grh_area = false;
  bool compare_swap = false;  ///< kAtomic: true: compare and swap; false: fetch and add.
  LocalRange local;
  RemoteRange remote;
  uint32_t check_length_bytes = 0;  ///< >= remote.length_bytes; on a FIRST, the whole message.
  Rkey invalidate_rkey;
  uint64_t swap_add = 0;
  uint64_t compare = 0;
  uint64_t value = 0;
};

/// How an effect ended.
enum class EffectOutcome : uint8_t {
  kDone,
  kRemoteAccess,      ///< rkey unknown, other PD, right missing, out of range.
  kLocalProtection,   ///< lkey unknown, right missing, out of range.
  kInvalidateFailed,  ///< The key may not be invalidated.
  kNotKept,           ///< kKeep: there is no room.
};

/// The effect of a local work, for which no packet is sent. The shell finds its parameters by the
/// work's slot. It ends the effect with OnLocalDone, at once or later.
struct LocalEffect {
  enum class Kind : uint8_t {
    kInvalidate,  ///< Invalidate `rkey`, a window or fast-register region of this side.
    kBind,        ///< Bind a memory window.
  };
  Kind kind = Kind::kInvalidate;
  uint32_t slot = 0;
  Rkey rkey;
};

/// One packet to send, as its peer will see it, and the place of its payload: `payload` and the
/// addresses are the shell's to fill in. A packet for a queue pair of the same worker is handed
/// over like this, without a frame.
struct TxPacket : wire::Packet {
  enum class Source : uint8_t {
    kNone,
    kSend,    ///< `local`.
    kRemote,  ///< `remote`.
    kOwn,     ///< `own`: bytes that the core wrote.
  };
  // Of `header`, the shell's template supplies pkey and, for connections, dest_qpn.
  Source payload_source = Source::kNone;
  bool retransmission = false;
  Resend resend;                 ///< The reason, when a request is a retransmission.
  uint32_t path = 0;             ///< Datagrams: SendWork::path; the core sets header.dest_qpn.
  LocalRange local;              ///< kSend: bytes of send work `local.slot`.
  RemoteRange remote;            ///< kRemote: a READ response, needs Access::kRemoteRead.
  uint32_t following_bytes = 0;  ///< Bytes of the message behind these. Valid with payload.
  /// kOwn: the map of a selective acknowledgement; valid until the queue pair is called again.
  std::span<const uint8_t> own;

  uint32_t payload_bytes() const {
    if (payload_source == Source::kSend) return local.length_bytes;
    if (payload_source == Source::kOwn) return static_cast<uint32_t>(own.size());
    return payload_source == Source::kRemote ? remote.length_bytes : 0;
  }
};

/// Packets that follow one of their message: RcQueuePair::PollRun.
struct TxRun {
  static constexpr uint32_t kMost = 64;
  uint32_t packets = 0;
  uint64_t asks = 0;  ///< Bit i: packet i asks for an ACK.
};

}  // namespace uroce::transport
