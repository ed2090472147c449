// SPDX-License-Identifier: Apache-2.0
// Lists the queue pairs that a worker looks after in this turn, and in the next ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/thread/timer_wheel.h"

namespace uroce::datapath {

/// Lists with room for every queue pair, so that no packet causes an allocation. One thread.
class ReadyLists {
 public:
  ReadyLists(SessionList& sessions, const TurnTime& time) : sessions_(sessions), time_(time) {}

  /// Has `qp` looked after in this turn.
  void Touch(QueuePair& qp) {
    if (!qp.lists().Enter(WorkerList::kTouched)) return;
    touched_.push_back(&qp);
    sessions_.NoteWork(qp.program(), time_.now());
  }
  /// Calls `look_after(QueuePair&)` for each touched queue pair, also for those touched by a call.
  template <typename LookAfter>
  void TakeTouched(LookAfter&& look_after) {
    for (size_t i = 0; i < touched_.size(); ++i) {
      if (i + 1 < touched_.size()) touched_[i + 1]->works().PrefetchPosted();
      touched_[i]->lists().Leave(WorkerList::kTouched);
      look_after(*touched_[i]);
    }
    touched_.clear();
  }

  /// Notes that a packet came for `qp`, which may have to answer it.
  void AddReceived(QueuePair& qp) {
    if (qp.lists().Enter(WorkerList::kReceived)) received_.push_back(&qp);
  }
  template <typename Answer>
  void TakeReceived(Answer&& answer) {
    for (QueuePair* qp : received_) {
      qp->lists().Leave(WorkerList::kReceived);
      answer(*qp);
    }
    received_.clear();
  }

  /// Touches queue pairs whose doorbell has rung and who have something posted, as far as the
  /// budgets of their programs go.
  bool TakeDoorbells();

  /// Has `qp` looked after in the next turn in which its program has a budget.
  void Postpone(QueuePair& qp);
  /// Touches postponed queue pairs, as far as budgets go, and calls `visit(QueuePair&)` for each.
  /// One that is postponed meanwhile waits for the next turn.
  template <typename Visit>
  bool TakePostponed(Visit&& visit) {
    bool any = false;
    if (postponed_ == 0) return any;
    ForEachInTurn([&](WorkerSession& session) {
      const QueuePair* const last = session.newest_postponed;
      while (last != nullptr && session.Spend(turn(), &TurnAmounts::queue_pairs, 1) != 0) {
        QueuePair& qp = *session.oldest_postponed;
        ForgetPostponed(qp);
        any = true;
        Touch(qp);
        visit(qp);
        if (&qp == last) break;
      }
    });
    return any;
  }

  /// Whether there is work, so that the worker must not sleep.
  bool has_work() const { return postponed_ != 0 || !touched_.empty(); }

  // ---- between turns ----
  /// Reserves room for `queue_pairs` queue pairs.
  void Reserve(size_t queue_pairs);
  void Remove(QueuePair& qp);

 private:
  /// Begins with another program each turn, since programs of one user share a budget.
  template <typename Visit>
  void ForEachInTurn(Visit&& visit) {
    const std::vector<WorkerSession*>& sessions = sessions_.polled();
    const size_t count = sessions.size();
    for (size_t i = 0, at = count == 0 ? 0 : turn() % count; i < count; ++i) {
      visit(*sessions[at]);
      if (++at == count) at = 0;
    }
  }
  bool TakeDoorbellsOf(WorkerSession& session);
  /// Touches the queue pairs of a slot for which something is posted. False: for none.
  bool LookBehindBell(QueuePair& first_of_slot);
  void ForgetPostponed(QueuePair& qp);
  uint64_t turn() const { return time_.number(); }

  SessionList& sessions_;
  const TurnTime& time_;
  std::vector<QueuePair*> rung_;  // The first one of each doorbell slot.
  std::vector<QueuePair*> touched_;
  std::vector<QueuePair*> received_;
  uint32_t postponed_ = 0;  // Number for all programs; each program has its list.
};

}  // namespace uroce::datapath
