// SPDX-License-Identifier: Apache-2.0
// Work requests as the transport core sees them, the completions that it returns, and why a packet
// was refused or sent again. Scatter/gather lists, inline bytes and lkeys stay with the shell: the
// core names local bytes by work slot.
#pragma once

#include <array>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/wire/psn.h"

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
  static constexpr uint8_t kForEver = 255;
  ResendCause cause = ResendCause::kNone;
  uint8_t number = 0;
  uint8_t limit = 0;  ///< retry_count or rnr_retry; kForEver where rnr_retry is 7.
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

}  // namespace uroce::transport
