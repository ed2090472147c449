// SPDX-License-Identifier: Apache-2.0
// Queue pairs that change their state, fail, or end.
#include "pipeline/datapath/worker/state_changes.h"

#include <algorithm>

#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/queue/payload.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/worker/copy_engine.h"
#include "pipeline/datapath/worker/schedule.h"

namespace uroce::datapath {

void FailedQueuePairs::Add(QueuePair& qp, FailureCause cause) {
  if (qp.history() == nullptr || sink_ == nullptr) return;
  const auto is_its = [&qp](const Failed& failed) { return failed.queue_pair == &qp; };
  if (std::ranges::none_of(failed_, is_its)) failed_.push_back({&qp, cause});
}

void FailedQueuePairs::DeliverSome() {
  std::erase_if(failed_, [this](const Failed& failed) {
    const QueuePairCore& core = failed.queue_pair->core();
    if (core.state() == transport::QpState::kErr && core.HasPacket()) return false;
    Deliver(failed);
    return true;
  });
}

void FailedQueuePairs::Remove(const QueuePair& qp) {
  std::erase_if(failed_, [&](const Failed& failed) {
    if (failed.queue_pair != &qp) return false;
    Deliver(failed);
    return true;
  });
}

void FailedQueuePairs::Deliver(const Failed& failed) {
  QueuePair& qp = *failed.queue_pair;
  sink_->Take({.qpn = qp.qpn(),
               .remote_qpn = qp.path().remote_qpn,
               .device_index = qp.config().device->index(),
               .time = time_.clock().Wall(),
               .cause = failed.cause,
               .failure = qp.core().failure(),
               .history = qp.TakeHistory()});
}

namespace {

using transport::QpState;

// The most queue pairs that go to error in one turn because their completion queue has overflowed.
constexpr int kMaxFailures = 64;

}  // namespace

void StateChanges::Modify(QueuePair& qp, QpState state, const Attributes& attributes) {
  if (qp.is_waiting() && state != QpState::kReset) {
    qp.waiting().modification = {.state = state, .attributes = attributes};
    qp.reports().PublishState(state);
    return;
  }
  if (state == QpState::kReset) {
    const WaitKind wait = qp.wait();
    AbandonWaiting(qp);
    // A copy that is withdrawn or late has no outcome. An answer would tell the peer of bytes that
    // are not there, or of the result of an atomic that was never executed.
    if (wait == WaitKind::kEffect || wait == WaitKind::kInvalidate) qp.core().ForgetEffect();
  }
  Apply(qp, state, attributes);
}

void StateChanges::ApplyPending(QueuePair& qp) {
  if (!qp.waiting().modification) return;
  const WaitingWork::Modification modification = *qp.waiting().modification;
  qp.waiting().modification.reset();
  Apply(qp, modification.state, modification.attributes);
}

// Acknowledges before a stop: the program may have seen requests complete; no answer leaves later.
void StateChanges::Apply(QueuePair& qp, QpState state, const Attributes& attributes) {
  const bool stops = state == QpState::kErr || state == QpState::kReset;
  if (stops) context_.acknowledge_all(qp);
  qp.core().Modify(state, attributes);
  if (state == QpState::kReset) {
    qp.works().DiscardPosted();
    StopSending(qp);
    context_.congestion.Forget(qp);
  }
  if (stops) DropKept(qp);
  qp.reports().PublishState(qp.core().state());
  qp.works().LookForSends();
  context_.ready.Touch(qp);
}

void StateChanges::Fail(QueuePair& qp, FailureCause cause) {
  const QpState state = qp.state();
  if (state == QpState::kErr || state == QpState::kReset) return;
  context_.failed.Add(qp, cause);
  Modify(qp, QpState::kErr, qp.core().attributes());
}

void StateChanges::FailCorrupt(QueuePair& qp, FailureCause cause) {
  DeviceCounters& counters = qp.port().counters();
  Count(cause == FailureCause::kSendQueue ? counters.sq_corrupt : counters.rq_corrupt);
  Fail(qp, cause);
  qp.reports().RaiseEvent(kEventQpFatal);
}

void StateChanges::OnTransportError(QueuePair& qp) {
  context_.failed.Add(qp, FailureCause::kTransport);
  DropKept(qp);
}

bool StateChanges::FailSome() {
  for (int i = 0; i < kMaxFailures; ++i) {
    QueuePair* const qp = context_.completions.NextToFail();
    if (qp == nullptr) break;
    Fail(*qp, FailureCause::kCompletionQueue);
  }
  return true;
}

// The peer sees the same as if the queue had gone before the peer's next packet
// (docs/protocol/transport.md, section 11). A copy into a receive buffer of the queue may still be
// under way, but no program sees how that receive ends: the queue has left its domain before
// (Worker::RemoveSharedReceiveQueues), so CompletionPublisher drops the completion.
void StateChanges::LeaveQueue(QueuePair& qp, const SharedReceiveQueue& queue) {
  const uint32_t number = queue.config().number;
  const bool is_selected = qp.receive_source().shared() == &queue;
  const bool has_receive = qp.core().reliable().receive_queue() == number;
  if (qp.is_waiting() && is_selected) FailWaiting(qp);
  if (has_receive && qp.core().state() != QpState::kErr) {
    Modify(qp, QpState::kErr, qp.core().attributes());
  }
  if (is_selected) qp.receive_source().Deselect();
}

void StateChanges::FailWaiting(QueuePair& qp) {
  const WaitKind kind = qp.wait();
  const transport::TxPacket packet = qp.waiting().packet;
  const transport::Effect effect = qp.waiting().effect;
  AbandonWaiting(qp);
  switch (kind) {
    case WaitKind::kNone:
      break;
    case WaitKind::kEffect:
      context_.effects.Finish(qp, effect, MoveResult::kDenied, 0);
      break;
    case WaitKind::kInvalidate:
      qp.core().OnEffectDone(transport::EffectOutcome::kInvalidateFailed, 0, context_.time.now());
      break;
    case WaitKind::kGather:
      qp.core().OnGatherFailed(packet);
      break;
  }
  context_.ready.Touch(qp);
}

void StateChanges::End(QueuePair& qp) {
  context_.acknowledge_all(qp);
  StopSending(qp);
  ForgetReads(qp, context_.time.now());
  context_.congestion.Forget(qp);
  AbandonWaiting(qp);
  DropKept(qp);
  qp.port().superframes().Close(qp);
}

void StateChanges::AbandonWaiting(QueuePair& qp) {
  if (qp.has_waited()) CopyEngine::Abandon(qp);
  qp.set_wait(WaitKind::kNone);
  context_.key_changes.Remove(qp);
  if (!qp.has_waited()) return;
  qp.waiting().modification.reset();
  context_.waiting_packets.Abandon(qp);
}

void StateChanges::DropKept(QueuePair& qp) {
  if (qp.kept().any()) context_.kept_frames.Drop(qp.kept(), qp.program().frames);
}

}  // namespace uroce::datapath
