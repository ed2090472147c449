// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/resumption.h"

#include <rte_mbuf.h>

#include <utility>

#include "pipeline/datapath/queue/waiting_work.h"

namespace uroce::datapath {

void Resumption::FinishCopy(QueuePair& qp, MoveResult result) {
  if (std::exchange(qp.links().wait, WaitKind::kNone) == WaitKind::kGather) {
    context_.transmitter.FinishGather(qp, result);
  } else {
    WaitingWork& waiting = qp.waiting();
    rte_mbuf* const frame = std::exchange(waiting.job->frame, nullptr);
    context_.effects.Finish(qp, waiting.effect, result, waiting.job->original);
    if (frame != nullptr) rte_pktmbuf_free(frame);
    if (qp.is_waiting()) return;  // It waits for the end of a key.
  }
  GoOn(qp);
}

// Any packet that waits may make `qp` wait again when it is replayed. So `qp` sends one packet
// before: its own packets must not wait for the last of them, because its peer resends what is not
// acknowledged in time, and gives up.
void Resumption::GoOn(QueuePair& qp) {
  context_.ready.Touch(qp);
  context_.states.ApplyPending(qp);
  if (qp.waiting().oldest != nullptr) context_.transmitter.SendOne(qp);
  context_.executor.ReplayKept(qp);
  context_.executor.ReplayWaiting(qp);
}

}  // namespace uroce::datapath
