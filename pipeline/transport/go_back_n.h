// SPDX-License-Identifier: Apache-2.0
// When a requester sends all from the oldest unacknowledged packet on again, and at what cost
// (docs/protocol/transport.md, section 3.3).
#pragma once

#include <cstdint>

#include "pipeline/transport/report.h"
#include "pipeline/transport/retry_budget.h"

namespace uroce::transport {

/// Decides; the position moves in SendWorks. Each event goes back once: until something is
/// acknowledged, a further NAK tells of the same loss. A NAK behind a timeout costs no retry: it
/// tells of the round that the timeout has paid for. What is resent selectively costs none either:
/// there the ACK timeout alone counts, from the last progress on, since a responder names what it
/// misses many times within it.
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
  /// What comes now is news: a NAK, or a response that is passed over, goes back once more.
  void ForgetEvent() { going_back_ = false; }

  /// The ACK timer has expired. Never kStay.
  [[nodiscard]] Decision OnTimeout() {
    if (!retries_.Take()) return Decision::kExhausted;
    resend_ = {
        .cause = ResendCause::kAckTimeout, .number = retries_.taken(), .limit = retries_.limit()};
    // A NAK that answers what is resent now is news, whatever came before.
    going_back_ = false;
    return Decision::kGoBack;
  }
  /// A NAK, or an implied one. `is_back`: all is to be sent again already, and nothing of it has
  /// left. `timed_out`: a timeout has paid for this round.
  [[nodiscard]] Decision OnLoss(ResendCause cause, bool is_back, bool timed_out) {
    // Right behind an RNR NAK some responders send a NAK 0x60 (golden/linux-rxe-5-rnr).
    if (going_back_ || is_back) return Decision::kStay;
    const bool counts = !timed_out;
    if (counts && !retries_.Take()) return Decision::kExhausted;
    resend_ = {.cause = cause,
               .number = counts ? retries_.taken() : uint8_t{0},
               .limit = retries_.limit()};
    going_back_ = true;
    return Decision::kGoBack;
  }
  /// It goes back at no retry of this budget, as `resend` says; false: it has, for this event.
  bool OnFreeLoss(ResendCause cause) {
    if (going_back_) return false;
    going_back_ = true;
    resend_ = {.cause = cause, .limit = retries_.limit()};
    return true;
  }
  /// It has gone back for an RNR NAK.
  void OnRnrNak(const Resend& resend) { resend_ = resend; }

  /// Gone back for a NAK or a gap, and no progress since.
  bool going_back() const { return going_back_; }
  /// Why what has been sent before is sent again.
  const Resend& resend() const { return resend_; }

 private:
  RetryBudget retries_;
  bool going_back_ = false;
  Resend resend_;
};

}  // namespace uroce::transport
