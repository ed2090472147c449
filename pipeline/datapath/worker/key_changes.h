// SPDX-License-Identifier: Apache-2.0
// Executes works and packets that bind windows and take keys back.
#pragma once

#include "pipeline/datapath/memory/key_table.h"
#include "pipeline/datapath/memory/window_works.h"
#include "pipeline/datapath/queue/key_waits.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/ready_lists.h"
#include "pipeline/datapath/worker/send_schedule.h"
#include "pipeline/datapath/worker/turn_time.h"

namespace uroce::datapath {

/// A work or packet that takes a key back ends when nobody uses the key any more. One thread.
class KeyChanges {
 public:
  /// `grace` is null when the daemon has one worker.
  KeyChanges(const KeyTable& keys, GracePeriods* grace, ReadyLists& ready, const TurnTime& time)
      : keys_(keys), ready_(ready), time_(time), waits_(grace) {}

  /// Executes the works of `qp` that bind windows or take keys back and whose turn it is.
  void ExecuteLocals(QueuePair& qp);
  /// Takes back the key that a message names. Ends the message's effect, now or after a wait.
  void InvalidateForPeer(QueuePair& qp, Rkey rkey);
  /// Ends the works and effects whose keys nobody uses any more. Calls `on_end(QueuePair&)` for
  /// each queue pair that waits no more.
  template <typename OnEnd>
  bool TakeEnded(OnEnd&& on_end) {
    if (waits_.empty()) return false;
    bool any = false;
    waits_.TakeEnded([&](QueuePair& qp, KeyWaits::Waiting waiting) {
      any = true;
      if (waiting == KeyWaits::Waiting::kWork) {
        qp.core().OnLocalDone(transport::EffectOutcome::kDone);
        ready_.Touch(qp);
        return;
      }
      qp.links().wait = WaitKind::kNone;
      qp.core().OnEffectDone(transport::EffectOutcome::kDone, 0, time_.now());
      on_end(qp);
    });
    return any;
  }
  void Remove(const QueuePair& qp) { waits_.Remove(qp); }
  bool empty() const { return waits_.empty(); }

 private:
  const KeyTable& keys_;
  ReadyLists& ready_;
  const TurnTime& time_;
  KeyWaits waits_;
};

}  // namespace uroce::datapath
