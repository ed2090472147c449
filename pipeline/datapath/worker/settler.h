// SPDX-License-Identifier: Apache-2.0
// Looks after the touched queue pairs of a turn: takes posted works, publishes completions and
// events, files timers, and schedules queue pairs that have something to send.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/datapath/worker/completion_publisher.h"
#include "pipeline/datapath/worker/congestion_control.h"
#include "pipeline/datapath/worker/effects.h"
#include "pipeline/datapath/worker/schedule.h"
#include "pipeline/datapath/worker/state_changes.h"

namespace uroce::datapath {

/// The parts of a worker that its settler uses.
struct SettleContext {
  CompletionPublisher& completions;
  CongestionControl& congestion;
  KeyChanges& key_changes;
  QueuePairTimers& timers;
  ReadyLists& ready;
  StateChanges& states;
  const TurnTime& time;
};

/// One thread.
class Settler {
 public:
  explicit Settler(const SettleContext& context) : context_(context) {}

  /// Tells the transports of the timers that have fired. `has_heard_all`: no received frame waits.
  bool Expire(bool has_heard_all);
  /// Settles every queue pair that is touched, and shows programs the completions.
  void SettleTouched() {
    context_.ready.TakeTouched([this](QueuePair& qp) { Settle(qp); });
    context_.completions.FinishBursts();
  }

 private:
  void Settle(QueuePair& qp);
  /// Schedules `qp` if it has something to send, now or when its send time has come.
  void Schedule(QueuePair& qp);
  void PublishEvents(QueuePair& qp);
  void PullPosted(QueuePair& qp);
  /// Hands works of the send queue to the transport. True: there are more.
  bool PullSends(QueuePair& qp);
  /// Makes the transport flush receives. True: there are more.
  bool FlushReceives(QueuePair& qp);
  /// Takes works of one queue, up to what the program's budget allows.
  template <typename Pull>
  PullResult PullWithinBudget(QueuePair& qp, uint32_t most, Pull&& pull);

  const SettleContext context_;
};

}  // namespace uroce::datapath
