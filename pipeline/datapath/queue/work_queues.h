// SPDX-License-Identifier: Apache-2.0
// The rings of one queue pair: posted works go from there to the transport, with private copies of
// what they point to.
#pragma once

#include <cstdint>

#include "pipeline/base/counters.h"
#include "pipeline/base/types.h"
#include "pipeline/datapath/queue/queue_pair_config.h"
#include "pipeline/datapath/queue/queue_pair_core.h"
#include "pipeline/datapath/queue/shared_receive_queue.h"
#include "pipeline/datapath/queue/work_request.h"
#include "pipeline/shm/rings/work_queue.h"

namespace uroce::datapath {

/// Where a queue pair takes receives from: its own ring, a shared receive queue, or for an XRC
/// target the shared queue that was selected last. It also decides which keys packets may name. One
/// thread.
class ReceiveSource {
 public:
  explicit ReceiveSource(const QueuePairConfig& config)
      : shared_(config.shared),
        session_(config.session),
        domain_(config.domain),
        pd_(config.shared != nullptr ? config.shared->config().pd : config.pd),
        remote_pd_(config.pd) {}

  /// Whether this is an XRC target. It takes receives from the queue that was selected last.
  bool is_target() const { return domain_ != nullptr; }
  /// Range: is_target(). False: its domain has no such queue, and none is selected.
  [[nodiscard]] bool Select(uint32_t srqn);
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
