// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/schedule.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/queue/payload.h"
#include "pipeline/shm/rings/doorbells.h"

namespace uroce::datapath {
namespace {

bool HasCopies(const WorkerSession& session, uint32_t worker) {
  const CopyHelper* const helper = session.session->copy_helper();
  return helper != nullptr && helper->in_flight(worker) != 0;
}

}  // namespace

WorkerSession& SessionList::Add(Session* session, Nanos now) {
  sessions_.push_back(std::make_unique<WorkerSession>());
  WorkerSession& added = *sessions_.back();
  added.session = session;
  added.doorbells = session->doorbells(worker_);
  added.last_work = now;
  const std::shared_ptr<WorkerUser> user = UserOf(session->uid());
  added.user = user.get();
  added.frames.user = std::shared_ptr<UserFrames>(user, &user->frames);
  added.place = polled_.size();
  polled_.reserve(sessions_.size());  // So that unparking allocates nothing.
  polled_.push_back(&added);
  const int fd = session->wake_fd(worker_);
  if (fd < 0) return added;
  if (of_fd_.size() <= static_cast<size_t>(fd)) of_fd_.resize(static_cast<size_t>(fd) + 1);
  of_fd_[static_cast<size_t>(fd)] = &added;
  return added;
}

void SessionList::Remove(Session* session) {
  const auto its = std::ranges::find(sessions_, session, &WorkerSession::session);
  if (its == sessions_.end()) return;
  if (!(*its)->parked) Unlist(**its);
  const int fd = session->wake_fd(worker_);
  if (fd >= 0) of_fd_[static_cast<size_t>(fd)] = nullptr;
  sessions_.erase(its);
  std::erase_if(users_, [](const auto& user) { return user.use_count() == 1; });
}

std::shared_ptr<WorkerUser> SessionList::UserOf(uint32_t uid) {
  const auto found =
      std::ranges::find(users_, uid, [](const auto& user) { return user->frames.uid; });
  if (found != users_.end()) return *found;
  return users_.emplace_back(std::make_shared<WorkerUser>(uid, all_waiting_));
}

WorkerSession* SessionList::Find(const Session* session) const {
  const auto its = std::ranges::find(sessions_, session, &WorkerSession::session);
  return its == sessions_.end() ? nullptr : its->get();
}

void SessionList::OnEvent(int fd, Nanos now) {
  if (static_cast<size_t>(fd) >= of_fd_.size()) return;
  WorkerSession* const session = of_fd_[static_cast<size_t>(fd)];
  if (session != nullptr && session->parked) NoteWork(*session, now);
}

void SessionList::Sweep(Nanos now) {
  if (park_after_ == kNever) {
    next_sweep_ = kNever;
    return;
  }
  next_sweep_ = now + park_after_;
  // From the end: a parked program's place is taken by the last program.
  for (size_t i = polled_.size(); i-- != 0;) {
    WorkerSession& session = *polled_[i];
    if (now - session.last_work < park_after_ || HasCopies(session, worker_)) continue;
    if (session.oldest_postponed != nullptr) continue;
    if (!Park(session)) session.last_work = now;
  }
}

bool SessionList::Park(WorkerSession& session) {
  // Without an eventfd no ring would be noticed.
  if (session.session->wake_fd(worker_) < 0) return false;
  if (!rings::AnnounceSleep(*session.doorbells)) {
    rings::AnnounceAwake(*session.doorbells);
    return false;
  }
  session.parked = true;
  Unlist(session);
  return true;
}

void SessionList::Unpark(WorkerSession& session) {
  rings::AnnounceAwake(*session.doorbells);
  session.parked = false;
  session.place = polled_.size();
  polled_.push_back(&session);
}

void SessionList::Unlist(const WorkerSession& session) {
  WorkerSession* const last = polled_.back();
  polled_[session.place] = last;
  last->place = session.place;
  polled_.pop_back();
}

bool SessionList::AnnounceSleep() {
  bool quiet = true;
  for (const WorkerSession* session : polled_) {
    quiet &= rings::AnnounceSleep(*session->doorbells);
    CopyHelper* const helper = session->session->copy_helper();
    if (helper != nullptr) quiet &= helper->AnnounceSleep(worker_);
  }
  return quiet;
}

bool SessionList::AwaitsPrograms() const {
  return std::ranges::any_of(polled_, [this](const WorkerSession* session) {
    const CopyHelper* const helper = session->session->copy_helper();
    return helper != nullptr && helper->in_lane(worker_) != 0;
  });
}

bool SessionList::AwaitsStages() const {
  return std::ranges::any_of(polled_, [this](const WorkerSession* session) {
    const CopyHelper* const helper = session->session->copy_helper();
    return helper != nullptr && helper->AwaitsStage(worker_);
  });
}

void SessionList::AnnounceAwake() {
  for (const WorkerSession* session : polled_) {
    rings::AnnounceAwake(*session->doorbells);
    CopyHelper* const helper = session->session->copy_helper();
    if (helper != nullptr) helper->AnnounceAwake(worker_);
  }
}

namespace {

// Gates close at these limits, which are below those of waiting frames by what may still be on the
// way: from one peer, and from all peers of a program, for which half of the limit is left.
constexpr uint32_t kGateWaiting = 256;
constexpr uint32_t kGateShares = 24;

uint32_t GateLimit(uint32_t left) { return std::min(kGateWaiting, left / kGateShares); }

}  // namespace

// A peer whose packets are dropped resends them.
bool WaitingPackets::Keep(QueuePair& qp, rte_mbuf* frame) {
  WaitingWork& waiting = qp.waiting();
  ProgramFrames& program = qp.program().frames;
  if (!frames_.HasRoom(program, waiting.packets)) {
    Drop(qp, frame);
    return false;
  }
  ++waiting.packets;
  WaitingFrames::Take(program);
  frame->next = nullptr;
  (waiting.oldest == nullptr ? waiting.oldest : waiting.newest->next) = frame;
  waiting.newest = frame;
  TendGate(qp);
  return true;
}

void WaitingPackets::Drop(QueuePair& qp, const rte_mbuf* frame) {
  Count(qp.port().counters().rx_parked_full);
  recorder_.OnAbandoned(qp, UROCE_REASON_PARKED_FULL, frame);
}

rte_mbuf* WaitingPackets::Take(QueuePair& qp) {
  WaitingWork& waiting = qp.waiting();
  rte_mbuf* const frame = waiting.oldest;
  if (frame == nullptr) return nullptr;
  waiting.oldest = frame->next;
  frame->next = nullptr;
  --waiting.packets;
  WaitingFrames::Give(qp.program().frames);
  return frame;
}

void WaitingPackets::TendGate(QueuePair& qp) {
  if (gates_ == nullptr) return;
  WaitingWork& waiting = qp.waiting();
  const ProgramFrames& program = qp.program().frames;
  const uint32_t most = frames_.Most(program) / 2;
  const uint32_t limit = GateLimit(most - std::min(most, program.waiting));
  if (!waiting.gate_closed && waiting.packets > limit) {
    waiting.gate_closed = true;
    gates_->Close(qp.qpn());
  } else if (waiting.gate_closed && waiting.packets <= limit / 2) {
    waiting.gate_closed = false;
    gates_->Open(qp.qpn());
  }
}

void WaitingPackets::Abandon(QueuePair& qp) {
  for (rte_mbuf* frame = Take(qp); frame != nullptr; frame = Take(qp)) {
    recorder_.OnAbandoned(qp, UROCE_REASON_ABANDONED, frame);
    rte_pktmbuf_free(frame);
  }
  TendGate(qp);
}

namespace {

// How many rung queue pairs are prefetched before it is their turn.
constexpr size_t kFetchedAhead = 4;

}  // namespace

bool ReadyLists::TakeDoorbells() {
  bool any = false;
  ForEachInTurn([&](WorkerSession& session) {
    if (rings::HasRung(*session.doorbells)) any |= TakeDoorbellsOf(session);
  });
  if (!any) return false;
  // Bells for nothing are no work: a worker that has nothing else leaves its CPU to others.
  bool any_posted = false;
  // All are taken before any is looked at, so that the next ones can be prefetched meanwhile.
  for (size_t i = 1; i < std::min(rung_.size(), kFetchedAhead); ++i) rung_[i]->Prefetch();
  for (size_t i = 0; i < rung_.size(); ++i) {
    if (i + kFetchedAhead < rung_.size()) rung_[i + kFetchedAhead]->Prefetch();
    const bool posted = LookBehindBell(*rung_[i]);
    any_posted |= posted;
    if (!posted) ++rung_[i]->program().idle;
  }
  rung_.clear();
  return any_posted;
}

bool ReadyLists::LookBehindBell(QueuePair& first_of_slot) {
  bool any = false;
  for (QueuePair* qp = &first_of_slot; qp != nullptr; qp = qp->next_of_slot()) {
    if (!qp->works().HasPosted()) continue;
    any = true;
    qp->works().LookForSends();
    Touch(*qp);
  }
  return any;
}

bool ReadyLists::TakeDoorbellsOf(WorkerSession& session) {
  const auto slots = static_cast<uint32_t>(session.slots.size());
  session.JudgeBells();
  const uint32_t most = session.Left(turn(), &TurnAmounts::queue_pairs);
  const size_t before = rung_.size();
  const uint32_t taken =
      rings::TakeSome(*session.doorbells, slots, most, session.doorbell_cursor, [&](uint32_t slot) {
        if (session.slots[slot] != nullptr) rung_.push_back(session.slots[slot]);
      });
  session.Spend(turn(), &TurnAmounts::queue_pairs, taken);
  session.rung = taken;
  session.idle = taken - static_cast<uint32_t>(rung_.size() - before);
  return taken != 0;
}

void ReadyLists::Postpone(QueuePair& qp) {
  if (!qp.lists().Enter(WorkerList::kPostponed)) return;
  WorkerSession& session = qp.program();
  QueuePair* const newest = std::exchange(session.newest_postponed, &qp);
  qp.postponed_link() = {.previous = newest, .next = nullptr};
  (newest == nullptr ? session.oldest_postponed : newest->postponed_link().next) = &qp;
  ++postponed_;
}

void ReadyLists::ForgetPostponed(QueuePair& qp) {
  if (!qp.lists().Leave(WorkerList::kPostponed)) return;
  WorkerSession& session = qp.program();
  const auto [previous, next] = std::exchange(qp.postponed_link(), {});
  (previous == nullptr ? session.oldest_postponed : previous->postponed_link().next) = next;
  (next == nullptr ? session.newest_postponed : next->postponed_link().previous) = previous;
  --postponed_;
}

void ReadyLists::Reserve(size_t queue_pairs) {
  if (touched_.capacity() >= queue_pairs) return;
  for (auto* list : {&rung_, &touched_, &received_}) list->reserve(queue_pairs * 2);
}

void ReadyLists::Remove(QueuePair& qp) {
  for (auto* list : {&touched_, &received_}) std::erase(*list, &qp);
  ForgetPostponed(qp);
}

}  // namespace uroce::datapath
