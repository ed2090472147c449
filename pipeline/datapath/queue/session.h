// SPDX-License-Identifier: Apache-2.0
// A program as its workers see it, and a worker's list of programs with what each may take in a
// turn.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/rings/doorbells.h"

namespace uroce::datapath {

class AddressTable;
class AddressVector;
class CopyHelper;
class QueuePair;
struct ProgramMemory;

/// What one program shares with one worker. Both outlive the session.
struct SessionLink {
  uroce_doorbells* doorbells = nullptr;  ///< In the arena.
  int wake_fd = -1;  ///< The eventfd that the program writes when it finds `sleeping` set.
};

/// One program: its doorbells, its address handles, and the helper that accesses its copied memory.
/// Made by nic, used by the workers between AddSession and RemoveSession.
class Session {
 public:
  /// `links` has one per worker. `uid` is the user, whose programs share limits. `rate` is what
  /// these programs may send together, and outlives the session; null: no limit.
  Session(uint32_t id, std::vector<SessionLink> links, uint32_t uid = 0,
          SharedRate* rate = nullptr);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  uint32_t id() const { return id_; }
  uint32_t uid() const { return uid_; }
  SharedRate* rate() const { return rate_; }
  uroce_doorbells* doorbells(uint32_t worker) const { return links_[worker].doorbells; }
  int wake_fd(uint32_t worker) const { return links_[worker].wake_fd; }

  /// Makes the helper thread for copied memory, which may outlive this object. Control thread,
  /// before the first copied region is published. Where the system refuses the thread, there is no
  /// helper afterwards.
  void StartCopyHelper(ProgramMemory memory);
  /// Returns the copy helper; null before StartCopyHelper. Any thread.
  CopyHelper* copy_helper() const { return helper_.load(std::memory_order_acquire); }

  /// Makes room for the program's address handles, once. Control thread, before the first is set.
  void MakeAddressTable(uint32_t capacity);
  /// Sets an address handle for the workers, or clears it. Control thread, after MakeAddressTable.
  void SetAddress(uint32_t handle, const AddressVector* vector);
  /// Returns the address vector of `handle`, or null. Any worker, for this turn.
  const AddressVector* FindAddress(uint32_t handle) const;

  /// The number of copies begun. Read after the grace period of an unpublished copied region:
  /// CopiesDone must confirm it before the program may reuse the memory. Control thread.
  uint64_t copies_begun() const;
  /// Whether the first `copies` copies have ended. They may never end: the program's memory can
  /// block its reader for as long as it lives.
  bool CopiesDone(uint64_t copies) const;

 private:
  uint32_t id_;
  uint32_t uid_;
  SharedRate* rate_;
  std::vector<SessionLink> links_;
  std::unique_ptr<CopyHelper> owned_helper_;
  std::atomic<CopyHelper*> helper_{nullptr};
  std::unique_ptr<AddressTable> owned_addresses_;
  std::atomic<AddressTable*> addresses_{nullptr};
};

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

}  // namespace uroce::datapath
