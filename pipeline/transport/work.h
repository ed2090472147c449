// SPDX-License-Identifier: Apache-2.0
// Work requests as the transport core sees them, and the completions it returns. Scatter/gather
// lists, inline bytes and lkeys stay with the shell: the core names local bytes by work slot.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"

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
  uint32_t length_bytes = 0;  ///< Sum of the list, <= 2^31. 8 for atomics, ATOMIC WRITE too.
  uint32_t immediate = 0;     ///< Bytes of ImmDt unchanged.
  Rkey invalidate_rkey;       ///< SEND with invalidate: the peer's key. Local invalidate: ours.
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

}  // namespace uroce::transport
