// SPDX-License-Identifier: Apache-2.0
// The worker's side of one shared receive queue: a ring that several queue pairs of one worker take
// receive works from.
#pragma once

#include <cstdint>

#include "pipeline/datapath/queue/pull_result.h"
#include "pipeline/datapath/queue/record_socket.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/rings/work_queue.h"
#include "pipeline/shm/rings/wqe.h"

namespace uroce::datapath {

class CompletionRing;
class Session;
class XrcQueues;

/// Fixed at creation. Addresses are the daemon's, in the session's arena.
struct SharedReceiveQueueConfig {
  uint32_t pd = 0;  ///< Daemon-wide number: what its entries point to is judged by it.
  uroce_srq_page* page = nullptr;
  rings::WorkQueueLayout layout;
  uint32_t max_sge = 0;
  uint64_t user_handle = 0;  ///< Element of asynchronous events.
  RecordSocket async;
  // Of an extended connection (XRC), where all that the queue pairs lack is the queue's.
  XrcQueues* domain = nullptr;     ///< Null for any other queue.
  uint32_t number = 0;             ///< By which requests name it.
  uint32_t handle = 0;             ///< Repeated in CQEs.
  Session* session = nullptr;      ///< Whose memory its domain's keys grant.
  CompletionRing* ring = nullptr;  ///< Of its worker, like the domain.
};

/// Made and destroyed by nic, which looks inside only while its worker stands still (Worker::Run);
/// else the worker's. Entries are copied out one by one, each for the queue pair that needs it, and
/// the program may reuse a slot as soon as its entry is taken.
class SharedReceiveQueue {
 public:
  explicit SharedReceiveQueue(const SharedReceiveQueueConfig& config);
  SharedReceiveQueue(const SharedReceiveQueue&) = delete;
  SharedReceiveQueue& operator=(const SharedReceiveQueue&) = delete;

  const SharedReceiveQueueConfig& config() const { return config_; }

  /// An entry, and how it was read.
  struct Entry {
    rings::ReceiveWqe wqe;
    rings::WqeResult read = rings::WqeResult::kOk;
    uint32_t slot = 0;
  };
  /// Takes the oldest entry. kMore: `entry` is set; kDrained: there is none.
  [[nodiscard]] PullResult Take(Entry& entry);

  /// Arms the limit event: raised once fewer than `limit` entries wait, at once if so many do now.
  /// 0 disarms.
  void SetLimit(uint32_t limit);
  /// Goes on in a fresh ring, with what waits at its beginning. False: too much waits, or the
  /// program's index is impossible; nothing has changed. Nobody posts meanwhile.
  [[nodiscard]] bool MoveTo(uroce_srq_page* page, const rings::WorkQueueLayout& layout);
  /// Entries that nobody has taken; 0 when the program's index is impossible.
  uint32_t waiting() const;
  /// 0 once the event was raised.
  uint32_t limit() const { return limit_; }

  /// The event's record did not fit into its pipe: the worker calls RetryRecord until it does.
  bool has_pending_record() const { return pending_record_; }
  void RetryRecord();
  /// Whether RecordRetries has it.
  bool is_retried() const { return is_retried_; }
  void set_retried(bool is_retried) { is_retried_ = is_retried; }
  /// Records written to the pipe of asynchronous events.
  uint32_t async_records() const { return async_records_; }

 private:
  void CheckLimit();

  SharedReceiveQueueConfig config_;
  rings::WorkQueueConsumer entries_;
  uint32_t limit_ = 0;
  uint32_t async_records_ = 0;
  bool pending_record_ = false;
  bool is_retried_ = false;
};

}  // namespace uroce::datapath
