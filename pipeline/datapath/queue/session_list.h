// SPDX-License-Identifier: Apache-2.0
// The programs of one worker, and which of them it looks at each turn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/datapath/frames/frame_shares.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/queue/turn_budget.h"
#include "pipeline/shm/rings/doorbells.h"

namespace uroce::datapath {

class QueuePair;

/// What programs of one user share at one worker.
struct WorkerUser {
  WorkerUser(uint32_t uid, std::shared_ptr<std::atomic<uint32_t>> all_waiting)
      : frames(uid, std::move(all_waiting)) {}

  UserFrames frames;
  TurnBudget budget{kTurnOfUser};
};

/// What one worker keeps of one program.
struct WorkerSession {
  Session* session = nullptr;
  uroce_doorbells* doorbells = nullptr;
  std::vector<QueuePair*> slots;  ///< First queue pair of each doorbell slot.
  Nanos last_work{0};             ///< When a queue pair of it was last touched.
  size_t place = 0;               ///< In the list of the polled.
  bool parked = false;
  ProgramFrames frames;
  WorkerUser* user = nullptr;  ///< Lives by `frames`.
  TurnBudget budget{kTurnOfProgram};
  rings::DoorbellCursor doorbell_cursor;
  // Queue pairs that want another turn, whatever is rung: by PostponedLink, the oldest first.
  QueuePair* oldest_postponed = nullptr;
  QueuePair* newest_postponed = nullptr;

  /// What is left of `what` in this turn.
  uint32_t Left(uint64_t turn, uint32_t TurnAmounts::*what) {
    return std::min(budget.Of(turn).*what, user->budget.Of(turn).*what);
  }
  /// Takes up to `wanted` of `what` from the budget of this turn, and returns how much that is.
  uint32_t Spend(uint64_t turn, uint32_t TurnAmounts::*what, uint32_t wanted) {
    return datapath::Spend(budget.Of(turn), user->budget.Of(turn), what, wanted);
  }
};

/// A program whose queue pairs are at work is polled: the worker looks at its doorbells each turn
/// and says in each when it sleeps. One whose queue pairs have been still for `park_after` is
/// parked: `sleeping` stays set in its doorbells, and it costs neither a look nor a store, however
/// many there are. Its eventfd, which is in the worker's epoll set in any case, tells when it comes
/// back: a sleeping worker wakes by it, a busy one looks there each kLookInterval while somebody is
/// parked. A packet for one of its queue pairs brings it back too, so who only answers its peer
/// never rings for a parked program.
///
/// No wake-up is lost:
/// - The program sets its doorbell's bit, then (a full fence between) reads `sleeping`. The worker
///   sets `sleeping`, then (a full fence between) looks for bits. One of them comes second and sees
///   what the other did: the program writes the eventfd, or the program stays polled.
/// - A write to the eventfd is an edge that epoll keeps until it has told it, also when nobody
///   sleeps there; and a program that is told of is polled from then on, so its bits are taken in
///   the next turn.
/// - `sleeping` is cleared before that turn. A ring in between is either seen in that turn, or its
///   thread saw the flag still set and writes the eventfd once more: an event for nothing.
/// A program can write the flag and the eventfd as it likes. It harms its own doorbells alone:
/// needless writes have it polled for `park_after`, no more.
///
/// The worker's thread, and control between its turns.
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

  /// A new program is polled.
  WorkerSession& Add(Session* session, Nanos now);
  void Remove(Session* session);
  /// Null: not here.
  WorkerSession* Find(const Session* session) const;

  /// The programs to look at in this turn, in no order. NoteWork and OnEvent append to it.
  const std::vector<WorkerSession*>& polled() const { return polled_; }
  bool any_parked() const { return polled_.size() != sessions_.size(); }

  /// A queue pair of `session` is touched.
  void NoteWork(WorkerSession& session, Nanos now) {
    session.last_work = now;
    if (session.parked) Unpark(session);
  }
  /// The eventfd `fd` has been written, if it is one of a program here.
  void OnEvent(int fd, Nanos now);
  /// Parks those that have been still for long enough. Cheap: once per turn.
  void ParkIdle(Nanos now) {
    if (now >= next_sweep_) Sweep(now);
  }

  /// Before the worker sleeps; false: a doorbell or a finished copy waits, it must not. And after.
  [[nodiscard]] bool AnnounceSleep();
  void AnnounceAwake();

 private:
  void Sweep(Nanos now);
  /// False: its program was faster and is polled on.
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
  std::vector<WorkerSession*> of_fd_;  // By eventfd; null where it is none of them.
};

}  // namespace uroce::datapath
