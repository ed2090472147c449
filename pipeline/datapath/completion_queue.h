// SPDX-License-Identifier: Apache-2.0
// The worker's end of a completion queue.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/rings/cqe_ring.h"
#include "pipeline/transport/work.h"
#include "verbs-shim/abi/uroce_abi.h"

namespace uroce::datapath {

/// What nic knows of a CQ when it makes one. Addresses are the daemon's, in the arena.
struct CompletionQueueConfig {
  uroce_cq_page* page = nullptr;
  uroce_cqe* entries = nullptr;
  uint32_t depth = 0;        ///< Power of two.
  uint64_t user_handle = 0;  ///< Record written on the channel.
  int channel_fd = -1;       ///< Write end, non-blocking; -1: none. Owned by nic.
  int async_fd = -1;         ///< Write end of the context's pipe. Owned by nic.
};

/// One completion queue. Owned by nic; used by the worker whose queue pairs complete on it, so nic
/// looks inside only within Worker::Run.
///
/// A full pipe leaves its record pending: the worker calls RetryRecords until none is left. The
/// daemon ignores SIGPIPE.
class CompletionQueue {
 public:
  explicit CompletionQueue(const CompletionQueueConfig& config);
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // ---- worker ----
  /// Writes one CQE. False: the queue has overflowed, now or before; it is marked in error, an
  /// IBV_EVENT_CQ_ERR is reported once, and the caller puts the CQ's queue pairs in error.
  [[nodiscard]] bool Publish(const transport::Completion& completion, uint32_t handle, Qpn qpn);
  /// Ends a burst of Publish calls: one fence, then the arm word, then a record if one is due.
  void FinishBurst();
  /// Whether Publish was called since FinishBurst.
  bool in_burst() const { return in_burst_; }
  bool has_pending_records() const { return pending_channel_ != 0 || pending_error_; }
  void RetryRecords();

  // ---- queries ----
  bool overflowed() const { return overflowed_; }
  /// Records written so far: what the program must have acknowledged at destruction.
  uint32_t channel_records() const { return channel_records_; }
  uint32_t async_records() const { return async_records_; }

 private:
  void Overflow();

  CompletionQueueConfig config_;
  rings::CqeProducer ring_;
  bool in_burst_ = false;
  bool solicited_in_burst_ = false;
  bool overflowed_ = false;
  bool pending_error_ = false;
  uint32_t pending_channel_ = 0;
  uint32_t channel_records_ = 0;
  uint32_t async_records_ = 0;
};

}  // namespace uroce::datapath
