// SPDX-License-Identifier: Apache-2.0
// The failure of a send queue: which work fails, when, and with which status.
#pragma once

#include <cstdint>
#include <utility>

#include "pipeline/transport/report.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// Completions come in posting order, and earlier works may still succeed. So a work that is found
/// unfit fails at the head: once all works before it are complete. Pure, owned by a Requester.
class HeadFailure {
 public:
  /// The work at `index` is to fail with `status` when it is the oldest. That work and later ones
  /// are not sent.
  void FailAtHead(uint32_t index, WcStatus status) {
    pending_ = true;
    index_ = index;
    status_ = status;
  }
  /// True when the work at `index` is to fail at the head.
  bool IsPendingAt(uint32_t index) const { return pending_ && index == index_; }
  /// The status of the work that is to fail. Meaningful while there is one.
  WcStatus pending_status() const { return status_; }

  /// The oldest work has failed: `failure` says how.
  void Fail(const Failure& failure) {
    failed_ = true;
    failure_ = failure;
    head_status_ = failure.status;
  }
  bool failed() const { return failed_; }
  /// How the oldest work failed. Meaningful once failed().
  const Failure& failure() const { return failure_; }
  /// The status of the next flushed work: the first is the failed work and gets its own status.
  WcStatus TakeStatus() { return std::exchange(head_status_, WcStatus::kWrFlushErr); }
  void Reset() {
    pending_ = failed_ = false;
    head_status_ = WcStatus::kWrFlushErr;
  }

 private:
  bool pending_ = false;
  bool failed_ = false;
  WcStatus status_ = WcStatus::kSuccess;
  WcStatus head_status_ = WcStatus::kWrFlushErr;
  uint32_t index_ = 0;
  Failure failure_;
};

}  // namespace uroce::transport
