// SPDX-License-Identifier: Apache-2.0
// Go-back-N: decides when a requester resends all from the oldest unacknowledged packet on, and
// whether that costs a retry (docs/protocol/transport.md, section 3.3).
#pragma once

#include <cstdint>

#include "pipeline/transport/report.h"
#include "pipeline/transport/retry_budget.h"

namespace uroce::transport {

/// Only decides: the send position is in SendWorks. Each loss goes back once: until something is
/// acknowledged, a further NAK tells of the same loss. A NAK after a timeout costs no retry: the
/// timeout has taken one for the same round. Selective resends cost no retry either: a responder
/// reports one missing packet many times within an ACK timeout, so only ACK timeouts since the last
/// progress count.
/// Pure, owned by a LossRecovery.
class GoBackN {
 public:
  enum class Decision : uint8_t { kStay, kGoBack, kExhausted };

  void Configure(uint8_t retry_count) { retries_.Configure(retry_count); }
  /// Something was acknowledged.
  void OnProgress() {
    retries_.Refill();
    going_back_ = false;
  }
  /// A NAK or implied NAK that comes from now on tells of a new loss, and goes back once more.
  void ForgetEvent() { going_back_ = false; }

  /// The ACK timer has expired. Never returns kStay.
  [[nodiscard]] Decision OnTimeout() {
    if (!retries_.Take()) return Decision::kExhausted;
    resend_ = {
        .cause = ResendCause::kAckTimeout, .number = retries_.taken(), .limit = retries_.limit()};
    // A NAK of a packet that is resent now tells of a new loss, whatever came before.
    going_back_ = false;
    return Decision::kGoBack;
  }
  /// A NAK or implied NAK has come. `is_back`: the requester has gone back already, and has resent
  /// nothing yet. `timed_out`: a timeout has taken the retry for this round.
  [[nodiscard]] Decision OnLoss(ResendCause cause, bool is_back, bool timed_out) {
    // Some responders send a NAK 0x60 right after an RNR NAK (golden/linux-rxe-5-rnr).
    if (going_back_ || is_back) return Decision::kStay;
    const bool counts = !timed_out;
    if (counts && !retries_.Take()) return Decision::kExhausted;
    resend_ = {.cause = cause,
               .number = counts ? retries_.taken() : uint8_t{0},
               .limit = retries_.limit()};
    going_back_ = true;
    return Decision::kGoBack;
  }
  /// Goes back without taking a retry. Returns false when it has gone back for this loss already.
  bool OnFreeLoss(ResendCause cause) {
    if (going_back_) return false;
    going_back_ = true;
    resend_ = {.cause = cause, .limit = retries_.limit()};
    return true;
  }
  /// The requester has gone back for an RNR NAK.
  void OnRnrNak(const Resend& resend) { resend_ = resend; }

  /// True when it has gone back for a NAK or a gap, and nothing was acknowledged since.
  bool going_back() const { return going_back_; }
  /// Why packets are sent again.
  const Resend& resend() const { return resend_; }

 private:
  RetryBudget retries_;
  bool going_back_ = false;
  Resend resend_;
};

}  // namespace uroce::transport
