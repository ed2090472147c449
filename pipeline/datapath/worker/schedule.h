// SPDX-License-Identifier: Apache-2.0
// Which programs and queue pairs a worker looks after in this turn and in the next ones, which of
// them must wait, and which sends next on a port and when.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/datapath/worker/frame.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/rings/doorbells.h"

namespace uroce::datapath {

// Limits what the programs of one user make a worker do in one turn. A program asks by a store, as
// often and for as many queue pairs as it likes; work beyond its budget waits for later turns.

/// One amount for each kind of work that has a budget.
struct TurnAmounts {
  uint32_t queue_pairs = 0;  ///< Looked after since they rang.
  uint32_t works = 0;        ///< Works taken from their queues.
};

/// A turn sends 32 packets per port, so a sender never needs more. A user has the budget of two
/// programs, so that one of many leaves something to the others.
inline constexpr TurnAmounts kTurnOfProgram{.queue_pairs = 64, .works = 128};
inline constexpr TurnAmounts kTurnOfUser{.queue_pairs = 128, .works = 256};

/// The rest of a budget in the turn that was asked for last. Used by one worker.
///
/// A doorbell that says nothing costs its program a store, and the worker a look at cold memory. So
/// the worker looks after fewer queue pairs of a program that rings mostly such ones in a turn,
/// down to a sixteenth.
class TurnBudget {
 public:
  explicit TurnBudget(const TurnAmounts& full) : full_(full), each_turn_(full) {}

  /// Tells that `rung` doorbells were looked at, behind `idle` of which nothing was posted. The
  /// next turns have half the queue pairs if these are more than three of four, else twice as many.
  void NoteBells(uint32_t rung, uint32_t idle) {
    if (rung == 0) return;
    uint32_t& each = each_turn_.queue_pairs;
    each = idle > rung - rung / 4 ? std::max(each / 2, full_.queue_pairs / 16)
                                  : std::min(each * 2, full_.queue_pairs);
  }

  TurnAmounts& Of(uint64_t turn) {
    if (turn != turn_) left_ = each_turn_;
    turn_ = turn;
    return left_;
  }

 private:
  const TurnAmounts full_;
  TurnAmounts each_turn_;
  TurnAmounts left_;
  uint64_t turn_ = 0;  ///< The first turn is 1.
};

/// Takes up to `wanted` of `what` from both budgets, and returns how much that is.
inline uint32_t Spend(TurnAmounts& program, TurnAmounts& user, uint32_t TurnAmounts::*what,
                      uint32_t wanted) {
  const uint32_t spent = std::min({wanted, program.*what, user.*what});
  program.*what -= spent;
  user.*what -= spent;
  return spent;
}

// The programs of one worker, and which of them it looks at each turn.

/// State that the programs of one user share at one worker.
struct WorkerUser {
  WorkerUser(uint32_t uid, std::shared_ptr<std::atomic<uint32_t>> all_waiting)
      : frames(uid, std::move(all_waiting)) {}

  UserFrames frames;
  TurnBudget budget{kTurnOfUser};
};

/// State that one worker keeps for one program.
struct WorkerSession {
  Session* session = nullptr;
  uroce_doorbells* doorbells = nullptr;
  std::vector<QueuePair*> slots;  ///< First queue pair of each doorbell slot.
  Nanos last_work{0};             ///< When one of its queue pairs was last touched.
  size_t place = 0;               ///< Index in the list of polled programs.
  bool parked = false;
  ProgramFrames frames;
  WorkerUser* user = nullptr;  ///< Kept alive by `frames`.
  TurnBudget budget{kTurnOfProgram};
  rings::DoorbellCursor doorbell_cursor;
  uint32_t rung = 0;  ///< Doorbells that were taken last.
  uint32_t idle = 0;  ///< Those of them behind which nothing was posted.
  // Queue pairs that want another turn, without a doorbell: by PostponedLink, the oldest first.
  QueuePair* oldest_postponed = nullptr;
  QueuePair* newest_postponed = nullptr;

  /// The rest of the budget for `what` in this turn.
  uint32_t Left(uint64_t turn, uint32_t TurnAmounts::*what) {
    return std::min(budget.Of(turn).*what, user->budget.Of(turn).*what);
  }
  /// Takes up to `wanted` of `what` from the budget of this turn, and returns how much that is.
  uint32_t Spend(uint64_t turn, uint32_t TurnAmounts::*what, uint32_t wanted) {
    return datapath::Spend(budget.Of(turn), user->budget.Of(turn), what, wanted);
  }
  /// Has what the last doorbells brought decide how many are taken in the next turns.
  void JudgeBells() {
    budget.NoteBells(rung, idle);
    user->budget.NoteBells(rung, idle);
    rung = idle = 0;
  }
};

/// A program whose queue pairs have work is polled: the worker looks at its doorbells each turn,
/// and sets `sleeping` there when it sleeps. A program whose queue pairs had none for `park_after`
/// is parked: `sleeping` stays set in its doorbells, and it costs neither a look nor a store,
/// however many there are. Its eventfd, which is always in the worker's epoll set, tells when it
/// comes back: a sleeping worker wakes by it, and a busy one looks there each kLookInterval while a
/// program is parked. A packet for one of its queue pairs also ends the parking, so a program that
/// only answers its peer is never parked when it rings.
///
/// No wake-up is lost:
/// - The program sets its doorbell's bit, then (a full fence between) reads `sleeping`. The worker
///   sets `sleeping`, then (a full fence between) looks for bits. One of them comes second and sees
///   what the other did: the program writes the eventfd, or the program stays polled.
/// - A write to the eventfd is an edge that epoll keeps until it has reported it, even when no
///   thread sleeps there. A program whose write is reported is polled from then on, so its bits are
///   taken in the next turn.
/// - `sleeping` is cleared before that turn. A ring in between is either seen in that turn, or its
///   thread saw the flag still set and writes the eventfd once more: a needless event.
/// A program can write the flag and the eventfd as it likes. It harms its own doorbells alone:
/// needless writes make it polled for `park_after`, no more.
///
/// Used by the worker's thread, and by the control thread between turns.
class SessionList {
 public:
  /// How long a doorbell of a parked program may wait for a worker that is busy. A look is a system
  /// call of 0.2 us.
  static constexpr Nanos kLookInterval{20'000};

  /// `worker` is the index of the worker; `park_after` kNever: programs are always polled;
  /// `all_waiting` is for UserFrames.
  SessionList(uint32_t worker, Nanos park_after,
              std::shared_ptr<std::atomic<uint32_t>> all_waiting = nullptr)
      : worker_(worker), park_after_(park_after), all_waiting_(std::move(all_waiting)) {}

  /// Adds a program, which is polled at first.
  WorkerSession& Add(Session* session, Nanos now);
  void Remove(Session* session);
  /// Null: this worker does not have the program.
  WorkerSession* Find(const Session* session) const;

  /// The programs to look at in this turn, unordered. NoteWork and OnEvent append to the list.
  const std::vector<WorkerSession*>& polled() const { return polled_; }
  bool any_parked() const { return polled_.size() != sessions_.size(); }

  /// Called when a queue pair of `session` is touched.
  void NoteWork(WorkerSession& session, Nanos now) {
    session.last_work = now;
    if (session.parked) Unpark(session);
  }
  /// Called when the eventfd `fd` was written, which may belong to a program here.
  void OnEvent(int fd, Nanos now);
  /// Parks programs that have been idle for long enough. Cheap: called once per turn.
  void ParkIdle(Nanos now) {
    if (now >= next_sweep_) Sweep(now);
  }

  /// Called before the worker sleeps. False: a doorbell or finished copy waits: it must not sleep.
  [[nodiscard]] bool AnnounceSleep();
  /// Whether a program has to make copies: a worker that sleeps looks after them in time.
  bool AwaitsPrograms() const;
  /// Whether copies of device memory are under way: a worker waits longer before it sleeps.
  bool AwaitsStages() const;
  void AnnounceAwake();

 private:
  void Sweep(Nanos now);
  /// False: the program rang first and is still polled.
  bool Park(WorkerSession& session);
  void Unpark(WorkerSession& session);
  void Unlist(const WorkerSession& session);
  std::shared_ptr<WorkerUser> UserOf(uint32_t uid);

  const uint32_t worker_;
  const Nanos park_after_;
  const std::shared_ptr<std::atomic<uint32_t>> all_waiting_;
  Nanos next_sweep_{0};
  std::vector<std::unique_ptr<WorkerSession>> sessions_;
  std::vector<WorkerSession*> polled_;
  std::vector<std::shared_ptr<WorkerUser>> users_;
  std::vector<WorkerSession*> of_fd_;  // By eventfd; null for other fds.
};

// Packets behind a queue pair that waits for a copy, and queue pairs that must not send because
// their peer has too many of these.

/// Keeps packets that wait behind a queue pair's copy job in WaitingWork, within the limits of
/// WaitingFrames. Closes the gate of a queue pair behind which many wait, so that peers in the
/// daemon wait, too. One thread.
class WaitingPackets {
 public:
  /// `gates` is null when the daemon has one worker.
  WaitingPackets(const FrameLimits& limits, ReceiveGates* gates, FrameRecorder& recorder)
      : frames_(limits), gates_(gates), recorder_(recorder) {}

  const WaitingFrames& frames() const { return frames_; }
  /// Whether another frame may wait for the helper of `qp`. True where there is no helper.
  bool MayWait(const QueuePair& qp) const {
    return frames_.HasRoom(qp.program().frames) || !HasHelper(qp);
  }
  static bool HasHelper(const QueuePair& qp) {
    return qp.receive_source().memory_session()->copy_helper() != nullptr;
  }
  /// Keeps a packet. False: no room; it is dropped and counted, and the caller keeps the frame.
  bool Keep(QueuePair& qp, rte_mbuf* frame);
  /// Drops and counts a packet that would have to wait.
  void Drop(QueuePair& qp, const rte_mbuf* frame);
  /// Returns the oldest frame that waits, which the caller then owns; null: none. The caller calls
  /// TendGate after the last Take.
  rte_mbuf* Take(QueuePair& qp);
  /// Closes the gate of `qp` when many packets wait, and opens it when few do.
  void TendGate(QueuePair& qp);
  /// Drops all packets that wait behind `qp`.
  void Abandon(QueuePair& qp);

 private:
  WaitingFrames frames_;
  ReceiveGates* const gates_;
  FrameRecorder& recorder_;
};

/// Holds queue pairs whose peer in the daemon has closed its gate, and those whose program has so
/// many frames waiting that it may not have another copy job. One thread.
class HeldSenders {
 public:
  /// `gates` is null when the daemon has one worker.
  HeldSenders(const ReceiveGates* gates, const WaitingPackets& waiting)
      : gates_(gates), waiting_(waiting) {}

  /// Whether `qp` must not send now.
  bool MustHold(const QueuePair& qp) const { return IsPeerFull(qp) || !waiting_.MayWait(qp); }
  /// Adds `qp`, which Release finds when it may send again.
  void Add(QueuePair& qp) {
    if (!qp.lists().Enter(WorkerList::kHeld)) return;
    held_.push_back({&qp, WaitingPackets::HasHelper(qp) ? &qp.program().frames : nullptr});
  }
  /// Calls `on_release(QueuePair&)` for those that may send again. Checks up to kMaxLooks a turn.
  template <typename OnRelease>
  bool Release(OnRelease&& on_release) {
    if (held_.empty()) return false;
    bool any = false;
    for (size_t looks = held_.size() < kMaxLooks ? held_.size() : kMaxLooks; looks != 0; --looks) {
      if (next_ >= held_.size()) next_ = 0;
      const Held held = held_[next_];
      if (MustHold(held)) {
        ++next_;
        continue;
      }
      QueuePair& qp = *held.qp;
      held_[next_] = held_.back();
      held_.pop_back();
      qp.lists().Leave(WorkerList::kHeld);
      any = true;
      on_release(qp);
    }
    return any;
  }
  bool empty() const { return held_.empty(); }

  // ---- between turns ----
  void Reserve(size_t queue_pairs) {
    if (held_.capacity() < queue_pairs) held_.reserve(queue_pairs * 2);
  }
  void Remove(QueuePair& qp) {
    std::erase_if(held_, [&qp](const Held& held) { return held.qp == &qp; });
  }

 private:
  static constexpr size_t kMaxLooks = 64;  // In one turn.
  /// A program with thousands of held queue pairs costs others little: while the program has no
  /// room for frames, the worker does not read these queue pairs, which no cache holds.
  struct Held {
    QueuePair* qp;
    const ProgramFrames* frames;  // Of its program; null: they do not hold it.
  };

  bool MustHold(const Held& held) const {
    const bool has_room = held.frames == nullptr || waiting_.frames().HasRoom(*held.frames);
    return !has_room || MustHold(*held.qp);
  }

  bool IsPeerFull(const QueuePair& qp) const {
    return qp.is_peer_in_daemon() && gates_ != nullptr && gates_->IsClosed(qp.path().remote_qpn);
  }

  const ReceiveGates* const gates_;
  const WaitingPackets& waiting_;
  std::vector<Held> held_;
  size_t next_ = 0;  // Index that is checked first in the next turn.
};

// The queue pairs that have something to do.

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
  /// Calls `answer(QueuePair&)` for each of them, also for those that a call adds.
  template <typename Answer>
  void TakeReceived(Answer&& answer) {
    for (size_t i = 0; i < received_.size(); ++i) {
      QueuePair& qp = *received_[i];
      qp.lists().Leave(WorkerList::kReceived);
      answer(qp);
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

/// Schedules `qp`, which has something to send, within its program, and the program on the port;
/// unless it is paused.
inline void StartSending(QueuePair& qp) {
  if (qp.is_paused()) [[unlikely]]
    return;
  SessionFlow& session = qp.program_flow();
  session.queue_pairs.Add(qp.scheduled());
  qp.port().sessions().Add(session);
}

inline void StopSending(QueuePair& qp) {
  SessionFlow& session = qp.program_flow();
  session.queue_pairs.Remove(qp.scheduled());
  if (session.queue_pairs.empty()) qp.port().sessions().Remove(session);
}

/// How many packets of `bytes`, of one message and superframe, the schedule lets `qp` send before
/// another one may have its turn: see KeepTurn.
inline uint32_t PacketsInTurn(QueuePair& qp, uint32_t bytes) {
  int64_t left = qp.scheduled().deficit_bytes + DeficitRoundRobin::kMaxDebtBytes;
  const SessionFlow& session = qp.program_flow();
  if (!qp.port().sessions().IsAlone(session)) left = std::min(left, session.deficit_bytes);
  return left <= 0 ? 0 : static_cast<uint32_t>((left + bytes - 1) / bytes);
}

/// Lets the turn of `qp` last to the end of its superframe while one message fills it. Two short
/// superframes cost the kernel more than a long one (measured with 8 queue pairs: 0.7 of the
/// bandwidth where turns cut them).
inline void KeepTurn(QueuePair& qp) {
  const bool goes_on = qp.core().is_reliable() && qp.port().superframes().HasRoom(qp) &&
                       qp.core().reliable().IsWithinMessage();
  qp.program_flow().queue_pairs.Keep(goes_on ? &qp.scheduled() : nullptr);
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
