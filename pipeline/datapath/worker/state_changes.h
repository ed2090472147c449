// SPDX-License-Identifier: Apache-2.0
// Changes the state of queue pairs: when told to, or because something has failed.
#pragma once

#include <functional>

#include "pipeline/datapath/frames/kept_frames.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/completion_publisher.h"
#include "pipeline/datapath/worker/congestion_control.h"
#include "pipeline/datapath/worker/effects.h"
#include "pipeline/datapath/worker/failed_queue_pairs.h"
#include "pipeline/datapath/worker/key_changes.h"
#include "pipeline/datapath/worker/ready_lists.h"
#include "pipeline/datapath/worker/turn_time.h"
#include "pipeline/datapath/worker/waiting_packets.h"

namespace uroce::datapath {

/// What changes of state work with.
struct StateContext {
  CompletionPublisher& completions;
  CongestionControl& congestion;
  Effects& effects;
  FailedQueuePairs& failed;
  KeptFramePool& kept_frames;
  KeyChanges& key_changes;
  ReadyLists& ready;
  WaitingPackets& waiting_packets;
  const TurnTime& time;
  /// Sends all answers that a queue pair owes.
  std::function<void(QueuePair&)> acknowledge_all;
};

/// One thread.
class StateChanges {
 public:
  explicit StateChanges(const StateContext& context) : context_(context) {}

  /// Takes the attributes and the state: at once, or at the end of what `qp` waits for.
  void Modify(QueuePair& qp, transport::QpState state, const Attributes& attributes);
  /// `qp` waits no more: takes what Modify has left for that.
  void ApplyPending(QueuePair& qp);
  /// Writes the CQEs of `qp`, which goes to error where its completion queue is.
  void PublishCompletions(QueuePair& qp) {
    if (!context_.completions.PublishAll(qp)) Fail(qp, FailureCause::kCompletionQueue);
  }
  /// Puts `qp` in error, if it is not.
  void Fail(QueuePair& qp, FailureCause cause);
  /// The same for a ring that holds what cannot be, which is counted and told. `cause`: kSendQueue
  /// or kReceiveQueue.
  void FailCorrupt(QueuePair& qp, FailureCause cause);
  /// The transport of `qp` has put it in error.
  void OnTransportError(QueuePair& qp);
  /// Puts some of the queue pairs in error whose completion queue has overflowed.
  bool FailOverflowed() { return context_.completions.any_to_fail() && FailSome(); }
  /// `queue` is no more: its XRC target `qp` cannot finish what it has begun with it.
  void LeaveQueue(QueuePair& qp, const SharedReceiveQueue& queue);
  /// `qp` goes: sends what it owes, and forgets all that waits or is kept.
  void End(QueuePair& qp);

 private:
  bool FailSome();
  void Apply(QueuePair& qp, transport::QpState state, const Attributes& attributes);
  /// Forgets what is under way at the helper and all that waits behind it.
  void AbandonWaiting(QueuePair& qp);
  /// The end of what is under way at the helper of a program that leaves.
  void FailWaiting(QueuePair& qp);
  void DropKept(QueuePair& qp);

  const StateContext context_;
};

}  // namespace uroce::datapath
