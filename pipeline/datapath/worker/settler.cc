// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/settler.h"

#include "pipeline/base/observation.h"
#include "pipeline/datapath/worker/schedule.h"

namespace uroce::datapath {
namespace {

using transport::QpState;

// The most work requests taken from one queue per turn.
constexpr uint32_t kPullBurst = 32;
// The most timers that fire in one turn.
constexpr int kMaxExpiries = 64;

// A deadline is not always the end of an acknowledgement timer.
void OnDeadline(QueuePair& qp, Nanos now, bool has_heard_all) {
  if (!qp.core().is_reliable()) return qp.core().OnDeadline(now, has_heard_all);
  const uint64_t& timeouts = qp.core().reliable().counters().local_ack_timeout_err;
  const uint64_t before = timeouts;
  qp.core().OnDeadline(now, has_heard_all);
  if (timeouts == before) return;
  probes::Timeout(qp.qpn().value(), qp.core().next_send_psn().value(), timeouts);
}

void NoteRoundTrip(QueuePair& qp) {
  if (!qp.core().is_reliable()) return;
  const Nanos round_trip = qp.core().reliable().TakeRoundTrip();
  if (round_trip == Nanos(0)) return;
  qp.port().histograms().round_trip_ns.Add(static_cast<uint64_t>(round_trip.count()));
}

}  // namespace

bool Settler::Expire(bool has_heard_all) {
  const Nanos now = context_.time.now();
  int fired = 0;
  for (; fired < kMaxExpiries; ++fired) {
    QueuePair* const qp = context_.timers.PopExpired(now);
    if (qp == nullptr) break;
    // A waiting queue pair is asked again when it is settled after the wait.
    if (qp->is_waiting()) continue;
    if (qp->core().NextDeadline() <= now) OnDeadline(*qp, now, has_heard_all);
    context_.ready.Touch(*qp);  // Files the timer again.
  }
  return fired != 0;
}

void Settler::Settle(QueuePair& qp) {
  context_.states.PublishCompletions(qp);  // This makes room for posted works.
  if (qp.is_waiting()) return;
  PullPosted(qp);
  if (qp.works().has_local_works()) [[unlikely]] {
    context_.key_changes.ExecuteLocals(qp);
  }
  context_.states.PublishCompletions(qp);
  PublishEvents(qp);
  if (qp.reports().PublishState(qp.core().state())) {
    if (qp.core().state() == QpState::kErr) context_.states.OnTransportError(qp);
    // Works posted before the program saw the new state rang no doorbell for it: look once more.
    qp.works().LookForSends();
    PullPosted(qp);
    context_.states.PublishCompletions(qp);
  }
  context_.congestion.TakeLosses(qp);
  NoteRoundTrip(qp);
  SettleReads(qp, context_.time.now());
  context_.timers.File(qp);
  Schedule(qp);
}

void Settler::Schedule(QueuePair& qp) {
  if (!qp.core().HasPacket()) return StopSending(qp);
  if (!context_.congestion.MustWait(qp)) [[likely]]
    return StartSending(qp);
  StopSending(qp);
  context_.timers.FileAt(qp, context_.congestion.ResumeAt(qp));
}

void Settler::PublishEvents(QueuePair& qp) {
  transport::QpEvent event;
  while (qp.core().PollEvent(event)) qp.reports().RaiseEvent(static_cast<uint32_t>(event));
  RecordRetries& retries = context_.completions.retries();
  if (qp.reports().has_pending_records()) retries.Want(qp, context_.time.now());
  if (qp.works().has_limit_event() && qp.receive_source().shared() != nullptr) {
    retries.Want(*qp.receive_source().shared(), context_.time.now());
  }
}

template <typename Pull>
PullResult Settler::PullWithinBudget(QueuePair& qp, uint32_t most, Pull&& pull) {
  WorkerSession& session = qp.program();
  const uint64_t turn = context_.time.number();
  const uint32_t granted = std::min(most, session.Left(turn, &TurnAmounts::works));
  uint32_t left = granted;
  const PullResult result = pull(left);
  session.Spend(turn, &TurnAmounts::works, granted - left);
  return result;
}

void Settler::PullPosted(QueuePair& qp) {
  bool more = false;
  if (qp.works().may_have_sends() && qp.works().takes_sends()) more = PullSends(qp);
  if (qp.core().state() == QpState::kErr) more |= FlushReceives(qp);
  if (more) context_.ready.Postpone(qp);
}

bool Settler::PullSends(QueuePair& qp) {
  const QpState state = qp.core().state();
  SizeHistogram& sizes = qp.port().histograms().sent_bytes;
  switch (PullWithinBudget(qp, kPullBurst, [&](uint32_t& left) {
    return qp.works().PullSends(left, context_.time.now(), sizes);
  })) {
    case PullResult::kDrained:
      return false;
    case PullResult::kNoRoom:
      return state >= QpState::kSqe;  // Flushed works end at once; no packet causes a look.
    case PullResult::kMore:
      return true;
    case PullResult::kCorrupt:
      context_.states.FailCorrupt(qp, FailureCause::kSendQueue);
      return false;
  }
  return false;
}

bool Settler::FlushReceives(QueuePair& qp) {
  const uint32_t most = std::min(kPullBurst, qp.core().receive_room());
  switch (
      PullWithinBudget(qp, most, [&](uint32_t& left) { return qp.works().FlushReceives(left); })) {
    case PullResult::kMore:
      return true;
    case PullResult::kCorrupt:
      Count(qp.port().counters().rq_corrupt);
      return false;
    case PullResult::kDrained:
    case PullResult::kNoRoom:
      return false;
  }
  return false;
}

}  // namespace uroce::datapath
