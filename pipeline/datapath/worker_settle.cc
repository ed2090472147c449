// SPDX-License-Identifier: Apache-2.0
// From doorbells and timers to the transport, and from the transport to completions and events.
#include <rte_mbuf.h>

#include <algorithm>

#include "pipeline/datapath/record_pipe.h"
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

}  // namespace

void Worker::Impl::Touch(QueuePair& qp) {
  if (qp.links().touched) return;
  qp.links().touched = true;
  touched.push_back(&qp);
  sessions.NoteWork(*qp.links().session, now);
}

bool Worker::Impl::TakeDoorbells() {
  bool any = false;
  for (const WorkerSession* session : sessions.polled()) {
    if (!rings::HasRung(*session->doorbells)) continue;
    const auto slots = static_cast<uint32_t>(session->slots.size());
    any |= rings::TakeBelow(*session->doorbells, slots, [&](uint32_t slot) {
             if (session->slots[slot] != nullptr) rung.push_back(session->slots[slot]);
           }) != 0;
  }
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

bool Worker::Impl::TakePostponed() {
  const size_t count = postponed.size();
  for (size_t i = 0; i < count; ++i) {
    QueuePair& qp = *postponed[i];
    qp.links().again = false;
    Touch(qp);
    if (qp.core().HasKept()) ReplayKept(qp);  // Which may postpone it once more.
  }
  postponed.erase(postponed.begin(), postponed.begin() + static_cast<ptrdiff_t>(count));
  return count != 0;
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
  if (qp.has_pending_records()) WantRetry(&qp, nullptr);
  if (qp.links().limit_event_waits) WantRetry(nullptr, nullptr);
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

void Worker::Impl::PullPosted(QueuePair& qp) {
  QueuePair::Links& links = qp.links();
  const QpState state = qp.core().state();
  bool more = false;
  if (links.sends_wait && TakesSends(state)) {
    switch (qp.PullSends(kPullBurst)) {
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
    const PullResult pulled = qp.FlushReceives(std::min(kPullBurst, qp.core().receive_room()));
    more |= pulled == PullResult::kMore;
    if (pulled == PullResult::kCorrupt) {
      links.corrupt_receive = true;
      Count(links.port->counters().rq_corrupt);
    }
  }
  if (more) Postpone(qp);
}

void Worker::Impl::Postpone(QueuePair& qp) {
  if (qp.links().again) return;
  qp.links().again = true;
  postponed.push_back(&qp);
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
      if (ring->has_pending_records()) WantRetry(nullptr, ring);
      FailQueuePairsOf(*ring);
      Fail(qp);  // A target is none of the ring's.
      if (config.overflows != nullptr) config.overflows->OnOverflow(ring->queue());
      return;
  }
}

void Worker::Impl::FailQueuePairsOf(CompletionRing& ring) {
  for (QueuePair* qp : ring.users()) Fail(*qp);
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
    if (ring->has_pending_records()) WantRetry(nullptr, ring);
  }
  bursts.clear();
}

void Worker::Impl::WantRetry(QueuePair* qp, CompletionRing* ring) {
  const Nanos after = ring == nullptr ? kRecordRetry : ring->RetryAfter();
  retry_records_at = std::min(retry_records_at, now + after);
  if (qp != nullptr && !qp->links().records_wait) {
    qp->links().records_wait = true;
    records_of_queue_pairs.push_back(qp);
  }
  if (ring == nullptr) return;
  for (const CompletionRing* other : records_of_rings) {
    if (other == ring) return;
  }
  records_of_rings.push_back(ring);
}

void Worker::Impl::RetryRecords() {
  retry_records_at = kNever;
  std::erase_if(records_of_queue_pairs, [](QueuePair* qp) {
    qp->RetryRecords();
    qp->links().records_wait = qp->has_pending_records();
    return !qp->has_pending_records();
  });
  std::erase_if(records_of_rings, [](CompletionRing* ring) {
    ring->RetryRecords();
    return !ring->has_pending_records();
  });
  bool shared_left = false;
  for (SharedReceiveQueue* queue : shared_queues) {
    queue->RetryRecord();
    shared_left |= queue->has_pending_record();
  }
  if (!records_of_queue_pairs.empty() || shared_left) retry_records_at = now + kRecordRetry;
  for (const CompletionRing* ring : records_of_rings) {
    retry_records_at = std::min(retry_records_at, now + ring->RetryAfter());
  }
}

}  // namespace uroce::datapath
