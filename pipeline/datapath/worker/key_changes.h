// SPDX-License-Identifier: Apache-2.0
// Works and packets that bind windows and take keys back.
#pragma once

#include "pipeline/datapath/memory/key_table.h"
#include "pipeline/datapath/memory/window_works.h"
#include "pipeline/datapath/queue/key_waits.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/ready_lists.h"
#include "pipeline/datapath/worker/send_schedule.h"
#include "pipeline/datapath/worker/turn_time.h"

namespace uroce::datapath {

/// Who takes a key back is told when nobody uses it any more. One thread.
class KeyChanges {
 public:
  /// `grace` is null for a worker that is alone.
  KeyChanges(const KeyTable& keys, GracePeriods* grace, ReadyLists& ready, const TurnTime& time)
      : keys_(keys), ready_(ready), time_(time), waits_(grace) {}

  /// Executes the works of `qp` that bind windows or take keys back, as far as it is their turn.
  void ExecuteLocals(QueuePair& qp);
  /// Takes back the key that a message names, and ends its effect, now or after a wait.
  void InvalidateForPeer(QueuePair& qp, Rkey rkey);
  /// Ends the works and effects of which the keys are used by nobody any more. Calls
  /// `on_end(QueuePair&)` for each queue pair that waits no more.
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
