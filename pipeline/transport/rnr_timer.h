// SPDX-License-Identifier: Apache-2.0
// The wait of a requester after an RNR NAK, before it sends again
// (docs/protocol/transport.md, section 3.3).
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/transport/report.h"
#include "pipeline/transport/retry_budget.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// Pure, owned by a LossRecovery.
class RnrTimer {
 public:
  /// `retry`: rnr_retry, 0 to 7, 7 = for ever.
  void Configure(uint8_t retry) { retries_.Configure(retry); }
  /// True during a wait: nothing is sent before the deadline.
  bool waiting() const { return deadline_ != kNever; }
  Nanos deadline() const { return deadline_; }
  /// True when an RNR NAK of `psn` says nothing new: the wait is for that packet or a later one.
  bool IsKnown(wire::Psn psn) const { return waiting() && psn_.Since(psn) >= 0; }

  /// Takes one retry. False: no retry is left.
  [[nodiscard]] bool TakeRetry() { return for_ever() || retries_.Take(); }
  /// Describes the resend after the wait, by the retry that was taken last.
  Resend resend() const {
    return {.cause = ResendCause::kRnrNak,
            .number = retries_.taken(),
            .limit = for_ever() ? Resend::kForEver : retries_.limit()};
  }
  /// Waits for `psn`, which was refused.
  void Start(wire::Psn psn, Nanos deadline) {
    psn_ = psn;
    deadline_ = deadline;
  }
  void Stop() { deadline_ = kNever; }
  /// True: the wait has just ended.
  bool Expire(Nanos now) {
    if (now < deadline_) return false;
    deadline_ = kNever;
    return true;
  }
  /// Something new is acknowledged: all before `una`.
  void OnProgress(wire::Psn una) {
    retries_.Refill();
    // Acknowledged packets before the refused one do not end the wait.
    if (una.Since(psn_) > 0) deadline_ = kNever;
  }

 private:
  static constexpr uint8_t kForEver = 7;
  bool for_ever() const { return retries_.limit() == kForEver; }

  Nanos deadline_ = kNever;
  wire::Psn psn_;  ///< The packet that was refused last.
  RetryBudget retries_;
};

}  // namespace uroce::transport
