// SPDX-License-Identifier: Apache-2.0
// Why a connection refused a packet, resent packets or failed, in more detail than the protocol
// carries: for captures and for people. Good packets write none of it.
#pragma once

#include <cstdint>

#include "pipeline/transport/work.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

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
  kSelectiveAck,   ///< A selective ACK reports it missing (pipeline/transport/README.md).
  kTailLossProbe,  ///< Nothing has come for some round trips (pipeline/transport/README.md).
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
