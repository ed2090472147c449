// SPDX-License-Identifier: Apache-2.0
// How a send queue fails: by one work, in its turn.
#pragma once

#include <cstdint>
#include <utility>

#include "pipeline/transport/report.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// Completions come in posting order. So a work that is found unfit fails at the head: once all
/// before it, which may still succeed, is complete. Pure, owned by a Requester.
class HeadFailure {
 public:
  /// The work at `index` is to fail with `status` when it is the oldest. Nothing from there on is
  /// sent.
  void FailAtHead(uint32_t index, WcStatus status) {
    pending_ = true;
    index_ = index;
    status_ = status;
  }
  /// The work at `index` is one that fails at the head.
  bool IsPendingAt(uint32_t index) const { return pending_ && index == index_; }
  /// With what status. Meaningful while a work is to fail.
  WcStatus pending_status() const { return status_; }

  /// The oldest work has failed: `failure` says how.
  void Fail(const Failure& failure) {
    failed_ = true;
    failure_ = failure;
    head_status_ = failure.status;
  }
  bool failed() const { return failed_; }
  /// Meaningful once failed.
  const Failure& failure() const { return failure_; }
  /// The status with which the next flushed work completes: the failed one's own comes first.
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
