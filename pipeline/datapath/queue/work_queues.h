// SPDX-License-Identifier: Apache-2.0
// The send queue and the receive queue of one queue pair, and shared receive queues: posted works
// go from their rings to the transport, with private copies of what they point to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "pipeline/base/observation.h"
#include "pipeline/base/types.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/rings/work_queue.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

class QueuePair;
class QueuePairCore;
struct QueuePairConfig;

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

// Shared receive queues, those of an extended connection (XRC) domain among them.

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

/// The worker's side of one shared receive queue: a ring that several queue pairs of one worker
/// take receive works from. Made and destroyed by nic, which looks inside only while its worker
/// stands still (Worker::Run); otherwise used by the worker. Entries are copied out one by one,
/// each for the queue pair that needs it, and the program may reuse a slot as soon as its entry is
/// taken.
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

// Work requests as a worker copies them from the rings: their checks, their statement in terms of
// the transport, and their lists of memory.

// Private copies of the memory that work requests point to: scatter/gather lists, inline bytes and
// bind requests. Packets, first or resent, are gathered by these copies, never by the ring that the
// program can still write.

/// Lists of the work requests that a send queue's transport holds at once, found by slot: the
/// free-running index of the work request in its queue. Memory is taken at construction.
class SendLists {
 public:
  SendLists(uint32_t held_works, const rings::WqeLimits& limits);

  void Store(uint32_t slot, const rings::SendWqe& wqe);
  void StoreNothing(uint32_t slot) { entries_[slot & mask_] = {}; }
  void StoreBind(uint32_t slot, const BindRequest& request);
  void Prefetch(uint32_t slot) const {
    __builtin_prefetch(&entries_[slot & mask_]);
    __builtin_prefetch(Place(slot));
  }
  /// Notes when the work request was taken: the time is kept in units of 64 ns, modulo 2^32.
  void SetTaken(uint32_t slot, Nanos now) { entries_[slot & mask_].taken = UnitsOf(now); }
  /// How long ago that was. Range: less than 274 s.
  Nanos SinceTaken(uint32_t slot, Nanos now) const {
    return Nanos(int64_t{UnitsOf(now) - entries_[slot & mask_].taken} << kUnitLog2);
  }
  bool is_inline(uint32_t slot) const { return entries_[slot & mask_].inline_length != 0; }
  std::span<const uroce_sge> List(uint32_t slot) const;
  std::span<const uint8_t> InlineBytes(uint32_t slot) const;
  /// Range: what is stored at `slot` is a request to bind.
  BindRequest Bind(uint32_t slot) const;

 private:
  struct Entry {
    uint16_t num_sge = 0;
    uint16_t inline_length = 0;
    uint32_t taken = 0;
  };
  static constexpr uint32_t kUnitLog2 = 6;
  static uint32_t UnitsOf(Nanos now) { return static_cast<uint32_t>(now.count() >> kUnitLog2); }
  uint8_t* Place(uint32_t slot) const { return bytes_.get() + size_t{slot & mask_} * stride_; }

  uint32_t mask_;
  uint32_t stride_;
  std::unique_ptr<Entry[]> entries_;
  std::unique_ptr<uint8_t[]> bytes_;
};

/// The list of the one receive work request that the transport holds.
class ReceiveList {
 public:
  explicit ReceiveList(uint32_t max_sge) : list_(std::make_unique<uroce_sge[]>(max_sge)) {}

  void Store(uint32_t slot, std::span<const uroce_sge> list);
  /// Returns the list of a slot; empty for any other slot than the stored one.
  std::span<const uroce_sge> List(uint32_t slot) const {
    return {list_.get(), slot == slot_ ? count_ : 0};
  }

 private:
  std::unique_ptr<uroce_sge[]> list_;
  uint32_t slot_ = 0;
  uint32_t count_ = 0;
};

/// Checks the private copy of a work request and states it in the transport's terms. A work that
/// cannot be executed (lengths, list, opcode, an atomic without room) comes back `malformed` and
/// completes with LOC_QP_OP_ERR. The shim refuses such a work at the post, so only a program that
/// writes rings by itself causes it. The transport refuses opcodes that `service` lacks.
transport::SendWork ToSendWork(const rings::SendWqe& wqe, rings::WqeResult read, uint32_t slot,
                               wire::Service service);
/// The binding that a work request asks for. Range: it is kBindWindow, and not malformed.
BindRequest ToBindRequest(const uroce_send_wqe& header);
/// ReceiveWork::queue of a work from a shared receive queue. It is 0 for other works, and for XRC
/// the number of the queue, which is greater.
inline constexpr uint32_t kSharedQueue = 1;

transport::ReceiveWork ToReceiveWork(const rings::ReceiveWqe& wqe, rings::WqeResult read,
                                     uint32_t slot);

/// Where a queue pair takes receives from: its own ring, a shared receive queue, or for an XRC
/// target the shared queue that was selected last. It also decides which keys packets may name. One
/// thread.
class ReceiveSource {
 public:
  explicit ReceiveSource(const QueuePairConfig& config);

  /// Whether this is an XRC target. It takes receives from the queue that was selected last.
  bool is_target() const { return domain_ != nullptr; }
  /// Range: is_target(). False: its domain has no such queue, and none is selected.
  [[nodiscard]] bool Select(uint32_t srqn);
  /// Range: is_target(). No queue is selected from now on: the one that was is about to go.
  void Deselect();
  /// The shared queue that receives are taken from, or null.
  const SharedReceiveQueue* shared() const { return shared_; }
  SharedReceiveQueue* shared() { return shared_; }
  /// The domain whose keys receive works hold: the queue pair's, or that of the shared queue.
  uint32_t pd() const { return pd_; }
  /// The domain of the keys that packets name: the queue pair's, or for XRC the selected queue's.
  uint32_t remote_pd() const { return remote_pd_; }
  /// The session whose memory the keys in packets grant.
  Session* memory_session() const {
    return is_target() && shared_ != nullptr ? shared_->config().session : session_;
  }

 private:
  SharedReceiveQueue* shared_;
  Session* const session_;
  XrcQueues* const domain_;
  uint32_t pd_;
  uint32_t remote_pd_;
};

/// Takes works from the rings of one queue pair, which its program writes. One thread.
class WorkQueues {
 public:
  /// The most send works that the transport holds at once. The other ones wait in the ring.
  static constexpr uint32_t kMaxHeldSends = 128;
  /// How many of them a queue pair with these settings holds.
  static uint32_t HeldSends(const QueuePairConfig& config);
  /// Bytes of the heap that the works of such a queue pair take while it holds them.
  static uint64_t HeldBytes(const QueuePairConfig& config);

  /// All three outlive this object; `core` and `source` may be constructed after it.
  WorkQueues(const QueuePairConfig& config, QueuePairCore& core, ReceiveSource& source);

  // ---- what works point to ----
  const SendLists& send_lists() const { return send_lists_; }
  const ReceiveList& receive_list() const { return receive_list_; }

  // ---- sends ----
  /// Whether posted sends are taken in the state of the transport.
  bool takes_sends() const;
  /// Whether the send ring may hold more than the transport took: until PullSends finds it drained.
  bool may_have_sends() const { return may_have_sends_; }
  void LookForSends() { may_have_sends_ = true; }
  /// Hands up to `left` posted sends to the transport, and subtracts their number from `left`.
  /// Their lengths are added to `sizes`. kCorrupt is returned once: the ring is not looked at again
  /// until DiscardPosted.
  PullResult PullSends(uint32_t& left, Nanos now, SizeHistogram& sizes);
  /// Whether works of the queue pair have bound windows or taken keys back.
  bool has_local_works() const { return has_local_works_; }
  /// Whether a send is posted that PullSends would take. Reads the program's index.
  bool HasReadySend() { return sends_.LookAgain() == rings::QueueState::kReady; }

  // ---- receives ----
  /// Hands the next receive to the transport, if there is one. kCorrupt: as for PullSends.
  PullResult PullReceive();
  /// In the error state: hands up to `left` receives to the transport, which flushes them, and
  /// subtracts their number from `left`. Receives posted to a shared queue stay there.
  PullResult FlushReceives(uint32_t& left);
  /// Whether the shared receive queue had a limit event to report when last taken from.
  bool has_limit_event() const { return has_limit_event_; }

  // ---- both ----
  /// Whether the rings hold something that a look would take: a send, or in the error state a
  /// receive. Reads the rings' indices in shared memory.
  bool HasPosted() const;
  /// Forgets all posted works. Called when the queue pair goes to RESET.
  void DiscardPosted();

  /// Prefetch what lies behind pointers, after QueuePair::Prefetch has had its time: for receiving,
  /// sending, and taking posted requests.
  void PrefetchReceive() const;
  void PrefetchSend() const;
  void PrefetchPosted() const;

 private:
  PullResult PostSends(uint32_t& left, Nanos now, SizeHistogram& sizes);
  PullResult PostOwnReceive();
  PullResult PostSharedReceive();
  /// Tells the transport how many receives wait. The program's index is read again when half of the
  /// receives that it last showed are taken. So the peer always knows of half at least, and reading
  /// the index costs a long queue next to nothing.
  void OfferCredits();
  /// Whether receives are flushed in the error state: those posted to a shared queue stay there.
  bool flushes_receives() const {
    return source_.shared() == nullptr && !source_.is_target() && !has_corrupt_receives_;
  }

  rings::WorkQueueConsumer sends_;
  rings::WorkQueueConsumer receives_;
  SendLists send_lists_;
  ReceiveList receive_list_;
  const QueuePairConfig& config_;
  QueuePairCore& core_;
  ReceiveSource& source_;
  bool may_have_sends_ = false;
  bool has_local_works_ = false;
  bool has_limit_event_ = false;
  bool has_corrupt_sends_ = false;
  bool has_corrupt_receives_ = false;
};

}  // namespace uroce::datapath
