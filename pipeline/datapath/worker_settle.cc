// SPDX-License-Identifier: Apache-2.0
// From doorbells and timers to the transport, and from the transport to completions and events.
#include <rte_mbuf.h>

#include <algorithm>
#include <utility>

#include "pipeline/datapath/record_socket.h"
#include "pipeline/datapath/worker_impl.h"
#include "pipeline/datapath/xrc_domain.h"
#include "pipeline/rings/doorbells.h"

namespace uroce::datapath {
namespace {

using transport::QpState;

// Work requests taken of one queue per turn.
constexpr uint32_t kPullBurst = 32;
// Timers that fire in one turn.
constexpr int kMaxExpiries = 64;
// Queue pairs that go to error in one turn because their completion queue has overflowed.
constexpr int kMaxFailures = 64;
// Queue pairs whose bell has rung that are fetched into the cache before it is their turn.
constexpr size_t kFetchedAhead = 4;

bool TakesSends(QpState state) {
  switch (state) {
    case QpState::kRts:
    case QpState::kSqd:
    case QpState::kSqe:
    case QpState::kErr:
      return true;
    case QpState::kReset:
    case QpState::kInit:
    case QpState::kRtr:
      return false;
  }
  return false;
}

// Another program is first in each turn: those of one user share a budget.
template <typename Visit>
void ForEachInTurn(const std::vector<WorkerSession*>& sessions, uint64_t turn, Visit&& visit) {
  const size_t count = sessions.size();
  for (size_t i = 0, at = count == 0 ? 0 : turn % count; i < count; ++i) {
    visit(*sessions[at]);
    if (++at == count) at = 0;
  }
}

}  // namespace

void Worker::Impl::Touch(QueuePair& qp) {
  if (qp.links().touched) return;
  qp.links().touched = true;
  touched.push_back(&qp);
  sessions.NoteWork(*qp.links().session, now);
}

bool Worker::Impl::TakeDoorbells() {
  bool any = false;
  ForEachInTurn(sessions.polled(), turn, [&](WorkerSession& session) {
    if (rings::HasRung(*session.doorbells)) any |= TakeDoorbellsOf(session);
  });
  if (!any) return false;
  // Taken first and looked at afterwards, so that those behind the first can be fetched meanwhile.
  for (size_t i = 1; i < std::min(rung.size(), kFetchedAhead); ++i) rung[i]->Prefetch();
  for (size_t i = 0; i < rung.size(); ++i) {
    if (i + kFetchedAhead < rung.size()) rung[i + kFetchedAhead]->Prefetch();
    for (QueuePair* qp = rung[i]; qp != nullptr; qp = qp->links().next_of_slot) {
      qp->links().sends_wait = true;
      Touch(*qp);
    }
  }
  rung.clear();
  return true;
}

bool Worker::Impl::TakeDoorbellsOf(WorkerSession& session) {
  const auto slots = static_cast<uint32_t>(session.slots.size());
  const uint32_t most = session.Left(turn, &TurnAmounts::queue_pairs);
  const uint32_t taken =
      rings::TakeSome(*session.doorbells, slots, most, session.doorbell_cursor, [&](uint32_t slot) {
        if (session.slots[slot] != nullptr) rung.push_back(session.slots[slot]);
      });
  session.Spend(turn, &TurnAmounts::queue_pairs, taken);
  return taken != 0;
}

bool Worker::Impl::TakePostponed() {
  bool any = false;
  ForEachInTurn(sessions.polled(), turn, [&](WorkerSession& session) {
    if (session.oldest_postponed != nullptr) any |= TakePostponedOf(session);
  });
  return any;
}

bool Worker::Impl::TakePostponedOf(WorkerSession& session) {
  // Those that were there: one that is looked after may be postponed once more.
  const QueuePair* const last = session.newest_postponed;
  bool any = false;
  while (session.Spend(turn, &TurnAmounts::queue_pairs, 1) != 0) {
    QueuePair& qp = *session.oldest_postponed;
    ForgetPostponed(qp);
    any = true;
    Touch(qp);
    if (qp.core().HasKept()) ReplayKept(qp);
    if (&qp == last) break;
  }
  return any;
}

bool Worker::Impl::Expire() {
  int fired = 0;
  for (; fired < kMaxExpiries; ++fired) {
    TimerEntry* entry = timers.PopExpired(now);
    if (entry == nullptr) break;
    QueuePair& qp = QueuePair::OfTimer(*entry);
    // A parked one is asked again when it is settled after the wait.
    if (qp.is_parked()) continue;
    if (qp.core().NextDeadline() <= now) qp.core().OnDeadline(now);
    Touch(qp);  // Files the timer anew.
  }
  return fired != 0;
}

void Worker::Impl::SettleAll() {
  // By index: settling may touch others (a CQ that overflows fails all its queue pairs).
  for (size_t i = 0; i < touched.size(); ++i) {
    if (i + 1 < touched.size()) touched[i + 1]->PrefetchPosted();
    touched[i]->links().touched = false;
    Settle(*touched[i]);
  }
  touched.clear();
}

void Worker::Impl::Settle(QueuePair& qp) {
  if (qp.is_parked()) {
    PublishCompletions(qp);
    return;
  }
  PublishCompletions(qp);  // Makes room for what is posted.
  PullPosted(qp);
  if (qp.links().has_locals) [[unlikely]] {
    ExecuteLocals(qp);
  }
  PublishCompletions(qp);
  transport::QpEvent event;
  while (qp.core().PollEvent(event)) qp.RaiseEvent(static_cast<uint32_t>(event));
  if (qp.has_pending_records()) WantRetry(qp);
  if (qp.links().limit_event_waits && qp.shared() != nullptr) WantRetry(*qp.shared());
  if (qp.PublishState(qp.core().state())) {
    if (qp.core().state() == QpState::kErr) {
      EndFlight(qp);
      DropKept(qp);
    }
    // Work posted before the program saw the new state rang no bell for it: look once more.
    qp.links().sends_wait = true;
    PullPosted(qp);
    PublishCompletions(qp);
  }
  FileTimer(qp);
  if (qp.core().HasPacket(now)) {
    qp.links().session_flow->queue_pairs.Add(qp.links().flow);
    qp.links().port->sessions().Add(*qp.links().session_flow);
  } else {
    StopSending(qp);
  }
}

template <typename Pull>
PullResult Worker::Impl::PullWithinBudget(QueuePair& qp, uint32_t most, Pull&& pull) {
  WorkerSession& session = *qp.links().session;
  const uint32_t granted = std::min(most, session.Left(turn, &TurnAmounts::works));
  uint32_t left = granted;
  const PullResult result = pull(left);
  session.Spend(turn, &TurnAmounts::works, granted - left);
  return result;
}

void Worker::Impl::PullPosted(QueuePair& qp) {
  QueuePair::Links& links = qp.links();
  const QpState state = qp.core().state();
  bool more = false;
  if (links.sends_wait && TakesSends(state)) {
    switch (PullWithinBudget(qp, kPullBurst, [&](uint32_t& left) { return qp.PullSends(left); })) {
      case PullResult::kDrained:
        links.sends_wait = false;
        break;
      case PullResult::kNoRoom:
        more = state >= QpState::kSqe;  // Flushed works leave at once, with no packet to say so.
        break;
      case PullResult::kMore:
        more = true;
        break;
      case PullResult::kCorrupt:
        links.corrupt_send = true;
        FailCorrupt(qp, links.port->counters().sq_corrupt);
        break;
    }
  }
  if (qp.core().state() == QpState::kErr) {
    const PullResult pulled =
        PullWithinBudget(qp, std::min(kPullBurst, qp.core().receive_room()),
                         [&](uint32_t& left) { return qp.FlushReceives(left); });
    more |= pulled == PullResult::kMore;
    if (pulled == PullResult::kCorrupt) {
      links.corrupt_receive = true;
      Count(links.port->counters().rq_corrupt);
    }
  }
  if (more) Postpone(qp);
}

void Worker::Impl::Postpone(QueuePair& qp) {
  if (std::exchange(qp.links().again, true)) return;
  WorkerSession& session = *qp.links().session;
  QueuePair* const newest = std::exchange(session.newest_postponed, &qp);
  qp.postponed_link() = {.previous = newest, .next = nullptr};
  (newest == nullptr ? session.oldest_postponed : newest->postponed_link().next) = &qp;
  ++postponed;
}

void Worker::Impl::ForgetPostponed(QueuePair& qp) {
  if (!std::exchange(qp.links().again, false)) return;
  WorkerSession& session = *qp.links().session;
  const auto [previous, next] = std::exchange(qp.postponed_link(), {});
  (previous == nullptr ? session.oldest_postponed : previous->postponed_link().next) = next;
  (next == nullptr ? session.newest_postponed : next->postponed_link().previous) = previous;
  --postponed;
}

void Worker::Impl::PublishCompletions(QueuePair& qp) {
  transport::Completion completion;
  while (qp.core().PollCompletion(completion)) Publish(qp, completion);
}

void Worker::Impl::Publish(QueuePair& qp, const transport::Completion& completion) {
  CompletionRing* ring = completion.is_receive ? qp.config().receive_ring : qp.config().send_ring;
  uint32_t handle = qp.config().handle;
  if (qp.is_target()) [[unlikely]] {
    const SharedReceiveQueue* const queue = qp.config().domain->Find(completion.queue);
    if (queue == nullptr) return;  // Nobody waits for it any more.
    ring = queue->config().ring;
    handle = queue->config().handle;
  }
  const bool first = !ring->in_burst();
  switch (ring->Publish(completion, handle, qp.qpn())) {
    case PublishResult::kOk:
      if (first) bursts.push_back(ring);
      return;
    case PublishResult::kInError:
      Fail(qp);
      return;
    case PublishResult::kOverflow:
      Count(qp.links().port->counters().cq_overflow);
      if (ring->has_pending_records()) WantRetry(*ring);
      FailQueuePairsOf(*ring);
      Fail(qp);  // A target is none of the ring's.
      if (config.overflows != nullptr) config.overflows->OnOverflow(ring->queue());
      return;
  }
}

// Those that complete something meanwhile go to error by that.
void Worker::Impl::FailQueuePairsOf(CompletionRing& ring) {
  std::erase(failing_rings, &ring);
  if (ring.FailUsers()) failing_rings.push_back(&ring);
}

bool Worker::Impl::FailQueuePairs() {
  for (int i = 0; i < kMaxFailures && !failing_rings.empty(); ++i) {
    QueuePair* const qp = failing_rings.back()->NextToFail();
    if (qp != nullptr) {
      Fail(*qp);
    } else {
      failing_rings.pop_back();
    }
  }
  return true;
}

void Worker::Impl::Fail(QueuePair& qp) {
  const QpState state = qp.state();
  if (state == QpState::kErr || state == QpState::kReset) return;
  const QueuePair::Links& links = qp.links();
  qp.links().flight_end = links.corrupt_send      ? FlightEnd::kSendQueue
                          : links.corrupt_receive ? FlightEnd::kReceiveQueue
                                                  : FlightEnd::kCompletionQueue;
  EndFlight(qp);
  Modify(&qp, QpState::kErr, qp.core().attributes(), nullptr);
}

void Worker::Impl::FailCorrupt(QueuePair& qp, std::atomic<uint64_t>& counter) {
  Count(counter);
  Fail(qp);
  qp.RaiseEvent(kEventQpFatal);
}

void Worker::Impl::FileTimer(QueuePair& qp) {
  const Nanos deadline = qp.core().NextDeadline();
  TimerEntry& timer = qp.links().timer;
  // A filed entry that has become too early stays where it is: it looks again when it fires.
  if (deadline < timer.deadline) timers.File(timer, deadline);
}

void Worker::Impl::FinishBursts() {
  for (CompletionRing* ring : bursts) {
    ring->FinishBurst();
    if (ring->has_pending_records()) WantRetry(*ring);
  }
  bursts.clear();
}

void Worker::Impl::WantRetry(QueuePair& qp) {
  if (std::exchange(qp.links().records_wait, true)) return;
  record_retries.Add({.queue_pair = &qp}, now, kRecordRetry);
}

void Worker::Impl::WantRetry(CompletionRing& ring) {
  if (ring.is_retried()) return;
  ring.set_retried(true);
  record_retries.Add({.ring = &ring}, now, ring.RetryAfter());
}

void Worker::Impl::WantRetry(SharedReceiveQueue& queue) {
  if (queue.is_retried()) return;
  queue.set_retried(true);
  record_retries.Add({.shared_queue = &queue}, now, kRecordRetry);
}

}  // namespace uroce::datapath
