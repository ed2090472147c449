// SPDX-License-Identifier: Apache-2.0
// Shared receive queues, those of an extended connection (XRC) domain among them.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "pipeline/datapath/queue/notification.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/rings/work_queue.h"

namespace uroce::datapath {

class QueuePair;

/// The results of a look into a program's rings.
enum class PullResult : uint8_t {
  kDrained,  ///< Nothing waits.
  kNoRoom,   ///< The transport is full: pull again when it has completed some.
  kMore,     ///< One was taken or the bound was reached: there may be more.
  kCorrupt,  ///< The program's index is impossible.
};

/// The result of a pull that found nothing to take. Range: not kReady.
constexpr PullResult NothingTaken(rings::QueueState state) {
  return state == rings::QueueState::kCorrupt ? PullResult::kCorrupt : PullResult::kDrained;
}

// The worker's side of one shared receive queue: a ring that several queue pairs of one worker take
// receive works from.

class CompletionRing;
class Session;
class XrcQueues;

/// Fixed at creation. Addresses are the daemon's, in the session's arena.
struct SharedReceiveQueueConfig {
  uint32_t pd = 0;  ///< Daemon-wide number of the domain of its entries' keys.
  uroce_srq_page* page = nullptr;
  rings::WorkQueueLayout layout;
  uint32_t max_sge = 0;
  uint64_t user_handle = 0;  ///< Element of asynchronous events.
  RecordSocket async;
  // For an XRC queue, which has everything that the queue pairs lack.
  XrcQueues* domain = nullptr;     ///< Null for any other queue.
  uint32_t number = 0;             ///< The number by which requests name the queue.
  uint32_t handle = 0;             ///< Repeated in CQEs.
  Session* session = nullptr;      ///< The program whose memory the domain's keys grant.
  CompletionRing* ring = nullptr;  ///< Belongs to the queue's worker, like the domain.
};

/// Made and destroyed by nic, which looks inside only while its worker stands still (Worker::Run);
/// otherwise used by the worker. Entries are copied out one by one, each for the queue pair that
/// needs it, and the program may reuse a slot as soon as its entry is taken.
class SharedReceiveQueue {
 public:
  explicit SharedReceiveQueue(const SharedReceiveQueueConfig& config);
  SharedReceiveQueue(const SharedReceiveQueue&) = delete;
  SharedReceiveQueue& operator=(const SharedReceiveQueue&) = delete;

  const SharedReceiveQueueConfig& config() const { return config_; }

  /// An entry, and the result of reading it.
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

  /// The entries that waited at one moment.
  struct Waiting {
    uint32_t first = 0;  ///< Free-running index.
    uint32_t count = 0;
  };
  // A move to another ring takes three steps: LookForWaiting, CopyTo, MoveTo. The program does not
  // post meanwhile; what it posts all the same is lost.
  /// Nothing: the program's index is impossible.
  std::optional<Waiting> LookForWaiting();
  /// Copies the entries to the start of another ring, which has room for them. Any thread; the
  /// worker may take entries meanwhile.
  void CopyTo(const rings::WorkQueueLayout& layout, const Waiting& waiting) const;
  /// Continues in the ring that CopyTo has filled, after the entries taken since LookForWaiting.
  void MoveTo(uroce_srq_page* page, const rings::WorkQueueLayout& layout, const Waiting& waiting);

  /// The number of entries not taken yet; 0 when the program's index is impossible.
  uint32_t waiting() const;
  /// The armed limit; 0 once the event was raised.
  uint32_t limit() const { return limit_; }

  /// Whether the event's record found its socket full: the worker calls RetryRecord until it fits.
  bool has_pending_record() const { return pending_record_; }
  void RetryRecord();
  /// Whether RecordRetries has this queue.
  bool is_retried() const { return is_retried_; }
  void set_retried(bool is_retried) { is_retried_ = is_retried; }
  /// The number of records written to the socket of asynchronous events.
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

/// The queues of one extended connection (XRC) domain, as its worker sees them: the shared receive
/// queues by their numbers, and its target queue pairs. All of
/// them live on the worker that owns the domain; nic changes it inside Worker::Run. The queues may
/// belong to several programs.
class XrcQueues {
 public:
  /// The queue of this number, or null.
  SharedReceiveQueue* Find(uint32_t srqn) const {
    const auto found = queues_.find(srqn);
    return found == queues_.end() ? nullptr : found->second;
  }
  void Insert(uint32_t srqn, SharedReceiveQueue* queue) { queues_[srqn] = queue; }
  void Erase(uint32_t srqn) { queues_.erase(srqn); }
  std::vector<QueuePair*>& targets() { return targets_; }

 private:
  std::unordered_map<uint32_t, SharedReceiveQueue*> queues_;
  std::vector<QueuePair*> targets_;
};

}  // namespace uroce::datapath
