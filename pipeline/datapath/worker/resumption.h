// SPDX-License-Identifier: Apache-2.0
// Continues queue pairs whose copy has ended, whose taken-back key nobody uses any more, whose turn
// has come again, or that may send again.
#pragma once

#include "pipeline/datapath/copy/payload.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/copy_engine.h"
#include "pipeline/datapath/worker/effects.h"
#include "pipeline/datapath/worker/held_senders.h"
#include "pipeline/datapath/worker/key_changes.h"
#include "pipeline/datapath/worker/packet_executor.h"
#include "pipeline/datapath/worker/ready_lists.h"
#include "pipeline/datapath/worker/state_changes.h"
#include "pipeline/datapath/worker/transmitter.h"

namespace uroce::datapath {

/// The parts of a worker that resumption uses.
struct ResumeContext {
  CopyEngine& copies;
  Effects& effects;
  HeldSenders& held;
  KeyChanges& key_changes;
  PacketExecutor& executor;
  ReadyLists& ready;
  StateChanges& states;
  Transmitter& transmitter;
};

/// One thread. Each step returns whether there was something to do.
class Resumption {
 public:
  explicit Resumption(const ResumeContext& context) : context_(context) {}

  bool FinishCopies() {
    return context_.copies.TakeFinished(
        [this](QueuePair& qp, MoveResult result) { FinishCopy(qp, result); });
  }
  bool EndKeyWaits() {
    return context_.key_changes.TakeEnded([this](QueuePair& qp) { GoOn(qp); });
  }
  bool TakePostponed() {
    return context_.ready.TakePostponed(
        [this](QueuePair& qp) { context_.executor.ReplayKept(qp); });
  }
  bool ReleaseHeld() {
    return context_.held.Release([this](QueuePair& qp) {
      context_.ready.Touch(qp);
      context_.executor.ReplayKept(qp);
    });
  }

 private:
  void FinishCopy(QueuePair& qp, MoveResult result);
  /// Called when `qp` waits no more: does what was postponed until then.
  void GoOn(QueuePair& qp);

  const ResumeContext context_;
};

}  // namespace uroce::datapath
