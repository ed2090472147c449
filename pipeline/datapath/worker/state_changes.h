// SPDX-License-Identifier: Apache-2.0
// Queue pairs that change their state, fail, or end.
#pragma once

#include <functional>
#include <vector>

#include "pipeline/datapath/capture/packet_records.h"
#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/datapath/worker/completion_publisher.h"
#include "pipeline/datapath/worker/congestion_control.h"
#include "pipeline/datapath/worker/copy_engine.h"
#include "pipeline/datapath/worker/effects.h"
#include "pipeline/datapath/worker/schedule.h"

namespace uroce::datapath {

/// Holds queue pairs that went to error by themselves, until the control thread has their packets.
/// One thread.
class FailedQueuePairs {
 public:
  /// `sink` is null without --history-dir.
  FailedQueuePairs(FailureSink* sink, TurnTime& time) : sink_(sink), time_(time) {}

  /// Adds `qp`, which is reported once it has sent what it owes: the NAK to its peer is one of its
  /// packets. The cause of the first call stands.
  void Add(QueuePair& qp, FailureCause cause);
  /// Reports the queue pairs that have sent all.
  void Deliver() {
    if (!failed_.empty()) DeliverSome();
  }
  /// Called when `qp` is removed: reports it at once, if it has failed.
  void Remove(const QueuePair& qp);

 private:
  struct Failed {
    QueuePair* queue_pair = nullptr;
    FailureCause cause = FailureCause::kTransport;
  };
  void DeliverSome();
  void Deliver(const Failed& failed);

  FailureSink* const sink_;
  TurnTime& time_;
  std::vector<Failed> failed_;
};

/// The parts of a worker that changes of state use.
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

/// Changes the state of queue pairs: on command, or because something has failed. One thread.
class StateChanges {
 public:
  explicit StateChanges(const StateContext& context) : context_(context) {}

  /// Sets the attributes and the state: at once, or when `qp` waits no more.
  void Modify(QueuePair& qp, transport::QpState state, const Attributes& attributes);
  /// Called when `qp` waits no more: applies a postponed Modify.
  void ApplyPending(QueuePair& qp);
  /// Writes the CQEs of `qp`, unless it is paused. Puts `qp` in error when its completion queue is
  /// in error.
  void PublishCompletions(QueuePair& qp) {
    if (qp.is_paused()) [[unlikely]]
      return;
    if (!context_.completions.PublishAll(qp)) Fail(qp, FailureCause::kCompletionQueue);
  }
  /// Puts `qp` in error, unless it is already.
  void Fail(QueuePair& qp, FailureCause cause);
  /// Does the same for a ring with impossible content, which is counted and reported. `cause`:
  /// kSendQueue or kReceiveQueue.
  void FailCorrupt(QueuePair& qp, FailureCause cause);
  /// Called when the transport of `qp` has put it in error.
  void OnTransportError(QueuePair& qp);
  /// Puts some of the queue pairs in error whose completion queue has overflowed.
  bool FailOverflowed() { return context_.completions.any_to_fail() && FailSome(); }
  /// Called when `queue` is destroyed: the XRC target `qp` cannot finish a message that uses it.
  void LeaveQueue(QueuePair& qp, const SharedReceiveQueue& queue);
  /// Called before `qp` is removed: sends what it owes, and forgets all that waits or is kept.
  void End(QueuePair& qp);

 private:
  bool FailSome();
  void Apply(QueuePair& qp, transport::QpState state, const Attributes& attributes);
  /// Forgets the job that is under way at the helper, and all packets that wait behind it.
  void AbandonWaiting(QueuePair& qp);
  /// Fails the job that is under way at the helper of a program that leaves.
  void FailWaiting(QueuePair& qp);
  void DropKept(QueuePair& qp);

  const StateContext context_;
};

}  // namespace uroce::datapath
