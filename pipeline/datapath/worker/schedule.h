// SPDX-License-Identifier: Apache-2.0
// Which queue pairs a worker looks after in this turn and in the next ones, and which of them sends
// next on a port and when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/thread/scheduling.h"

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

// Who sends next on a port and when: the schedule, READs that wait for room in a receive buffer,
// and the timers of queue pairs.

// The send schedule of a port.

/// Schedules `qp`, which has something to send, within its program, and the program on the port.
inline void StartSending(QueuePair& qp) {
  SessionFlow& session = qp.program_flow();
  session.queue_pairs.Add(qp.scheduled());
  qp.port().sessions().Add(session);
}

inline void StopSending(QueuePair& qp) {
  SessionFlow& session = qp.program_flow();
  session.queue_pairs.Remove(qp.scheduled());
  if (session.queue_pairs.empty()) qp.port().sessions().Remove(session);
}

/// Counts a frame of `bytes` as sent by `qp`, by its program and by its user.
inline void Charge(QueuePair& qp, uint32_t bytes) {
  SessionFlow& session = qp.program_flow();
  DeficitRoundRobin::Charge(qp.scheduled(), bytes);
  DeficitRoundRobin::Charge(session, bytes);
  session.share.OnSent(bytes + congestion::kFrameOverheadBytes);
}

// READs of queue pairs whose port has a small receive buffer: they ask when the budget of the port
// lets them (pipeline/datapath/thread/scheduling.h).

inline void LineUp(QueuePair& qp, ReadBudget& budget, Nanos now) {
  transport::RcQueuePair& core = qp.core().reliable();
  if (core.read_allowance() == transport::ReadAllowance::kUnlimited) core.AllowReads(0);
  const uint64_t wanted = core.WantedByRead();
  // What was granted and is not used: the next READ takes more, or there is none.
  if (core.read_allowance() != 0 && (wanted != 0 || !core.HasPacket())) core.AllowReads(0);
  budget.Shrink(qp.reads(), core.AwaitedByReads() + core.read_allowance(), now);
  ReadLine& line = qp.program_flow().reads;
  if (wanted == 0) return budget.Leave(line, qp.reads());
  budget.Wait(line, qp.reads(), wanted);
}

/// Gives back what was answered, and lines `qp` up when its next packet is a READ request that it
/// may not send yet. Called when anything about `qp` may have changed.
inline void SettleReads(QueuePair& qp, Nanos now) {
  ReadBudget& budget = qp.port().reads();
  if (!budget.is_bounded()) [[likely]]
    return;
  if (!qp.core().is_reliable()) return;
  if (qp.peer() == PeerPlace::kSameDevice) {
    // The responses do not come through the port.
    return qp.core().reliable().AllowReads(transport::ReadAllowance::kUnlimited);
  }
  LineUp(qp, budget, now);
}

/// Schedules queue pairs whose READs may ask now; up to a burst of them.
inline void GrantReads(DevicePort& port, Nanos now) {
  for (uint32_t left = kBurst; left != 0; --left) {
    uint64_t granted = 0;
    ReadShare* const share = port.reads().Grant(now, granted);
    if (share == nullptr) return;
    QueuePair& qp = QueuePair::OfShare(*share);
    qp.core().reliable().AllowReads(granted);
    StartSending(qp);
  }
}

/// `qp` ends, and is not settled any more.
inline void ForgetReads(QueuePair& qp, Nanos now) {
  ReadBudget& budget = qp.port().reads();
  if (!budget.is_bounded() || !qp.core().is_reliable()) return;
  budget.Leave(qp.program_flow().reads, qp.reads());
  budget.Shrink(qp.reads(), 0, now);
}

/// The times at which each queue pair must be looked after: the deadlines of a worker's queue
/// pairs. One thread.
class QueuePairTimers {
 public:
  /// Files the timer of `qp` for its transport's next deadline. A filed timer that has become too
  /// early stays where it is: the deadline is looked up again when it fires.
  void File(QueuePair& qp) { FileAt(qp, qp.core().NextDeadline()); }
  /// Makes the timer fire at `at`, unless it fires earlier.
  void FileAt(QueuePair& qp, Nanos at) {
    if (at < qp.timer().deadline) wheel_.File(qp.timer(), at);
  }
  void Remove(QueuePair& qp) { wheel_.Remove(qp.timer()); }
  /// Returns a queue pair whose timer has fired, or null. The caller files the timer again.
  QueuePair* PopExpired(Nanos now) {
    TimerEntry* const entry = wheel_.PopExpired(now);
    return entry == nullptr ? nullptr : &QueuePair::OfTimer(*entry);
  }
  /// A time not after the earliest deadline; kNever: there is none.
  Nanos NextDeadline() const { return wheel_.NextDeadline(); }

 private:
  TimerWheel wheel_{Nanos(0)};
};

}  // namespace uroce::datapath
