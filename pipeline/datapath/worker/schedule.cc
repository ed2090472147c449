// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/schedule.h"

#include <algorithm>
#include <utility>

#include "pipeline/shm/rings/doorbells.h"

namespace uroce::datapath {
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
