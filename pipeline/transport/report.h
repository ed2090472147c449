// SPDX-License-Identifier: Apache-2.0
// What a connection can say of a packet or of its own end beyond what the protocol needs: for
// captures and for people. Written where something is wrong, never on the way of a good packet.
#pragma once

#include <cstdint>

#include "pipeline/transport/work.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// Why a responder refuses a request for good.
enum class Refusal : uint8_t {
  kNone,
  kOrder,          ///< The opcode does not continue the message.
  kPayloadLength,  ///< Not what the path MTU or the message leaves.
  kMessageLength,  ///< Over 2^31 bytes.
  kRight,          ///< The queue pair does not allow this operation.
  kResources,      ///< More READs and atomics than max_dest_rd_atomic.
  kReceiveLength,  ///< The message is longer than its receive.
  kReceiveEntry,   ///< The posted receive is malformed.
  kAlignment,      ///< Atomic on an address that is no multiple of 8.
  kRemoteKey,      ///< The key does not grant this range.
  kLocalKey,       ///< The receive's own key does not grant its range.
  kInvalidate,     ///< The key to invalidate may not be.
};

/// Why a requester has gone back.
enum class ResendCause : uint8_t {
  kNone,
  kAckTimeout,
  kSequenceNak,
  kRnrNak,         ///< Its timer has run out.
  kImpliedNak,     ///< The response to a READ or atomic was passed over.
  kSelectiveAck,   ///< The responder says that it is missing (pipeline/transport/README.md).
  kTailLossProbe,  ///< Nothing has come for some round trips (pipeline/transport/README.md).
};

/// A resend under way: the `number`-th of `limit` allowed without progress; 0: it costs no retry.
struct Resend {
  static constexpr uint8_t kForEver = 255;
  ResendCause cause = ResendCause::kNone;
  uint8_t number = 0;
  uint8_t limit = 0;  ///< retry_count or rnr_retry; kForEver where rnr_retry is 7.
};

/// Of a request that was not executed; meaningful while PacketResult says that it was not.
struct RequestReport {
  bool answered = false;  ///< Duplicate: answered again. Gap: a NAK was asked for.
  uint8_t syndrome = 0;   ///< Of the NAK.
  Refusal refusal = Refusal::kNone;
};

/// How a connection came to its end by itself.
struct Failure {
  enum class Side : uint8_t { kNone, kRequester, kResponder };
  Side side = Side::kNone;
  WcStatus status = WcStatus::kSuccess;  ///< Of the work that failed; kSuccess: of none.
  uint8_t syndrome = 0;                  ///< Of the NAK sent or received; 0: there was none.
  Refusal refusal = Refusal::kNone;      ///< kResponder.
  wire::Psn psn;                         ///< Oldest unacknowledged, or refused.
};

}  // namespace uroce::transport
