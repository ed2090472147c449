// SPDX-License-Identifier: Apache-2.0
// The copy helper: the thread of one session that accesses memory by the program's own address
// space: memory that the daemon does not map, and mapped memory that rests (memory_rest.h); and
// memory of the program's devices, by the program's stage. An access may block for as long as the
// program likes, so a worker makes it only for a program that could end the daemon anyway.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "pipeline/base/types.h"
#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/os/credentials.h"

struct rte_mbuf;

namespace uroce::datapath {

class CopyLanes;
class QueuePair;
class Stage;
struct LaneCounters;
struct StageCounters;

/// Contiguous bytes of a program's address space, and as many bytes of the daemon.
struct CopyPiece {
  uint64_t app_addr = 0;
  uint8_t* bytes = nullptr;  ///< In a frame or in the job; null for atomics.
  uint32_t length_bytes = 0;
  bool is_staged = false;     ///< Memory of a device.
  bool ends_message = false;  ///< kWrite: programs may poll on its last bytes: see GatherPieces.
};

/// How many bytes of `piece` lie in the aligned eight bytes in which it ends: programs poll on
/// them.
uint32_t BytesOfLastWord(const CopyPiece& piece);

/// One job. It belongs to a queue pair, and so to one worker. From Submit until PollDone returns
/// it, it belongs to the helper.
struct CopyJob {
  enum class Kind : uint8_t { kRead, kWrite, kFetchAdd, kCompareSwap };
  /// Who has the job, and what has become of it.
  enum class Phase : uint8_t {
    kAtWorker,   ///< Neither the program nor the helper's thread has it, or it is done.
    kInLane,     ///< The program may begin it.
    kQueued,     ///< For the helper's thread.
    kBegun,      ///< By the helper's thread.
    kWithdrawn,  ///< Abandoned: who has not begun it leaves it out.
    kLate,       ///< Abandoned when the helper's thread had begun it, and still writes.
  };
  static constexpr uint32_t kMaxPieces = 80;
  static constexpr uint32_t kMaxBatched = 63;
  static constexpr uint32_t kMaxBatchedBytes = 252 << 10;

  /// The part of a job for a later packet: the helper's work is short, but the wait for it long.
  struct Batched {
    rte_mbuf* frame = nullptr;  ///< Holds the bytes; the job has a reference.
    uint32_t pieces_end = 0;    ///< Complete when this many pieces of the job have been moved.
  };

  Kind kind = Kind::kRead;
  uint32_t piece_count = 0;
  uint32_t own_pieces = 0;    ///< The job's own, which come first. Only these can fail the job.
  uint32_t moved_pieces = 0;  ///< The helper's answer: how many pieces, from the first on.
  std::array<CopyPiece, kMaxPieces> pieces;  ///< A piece advances as its bytes are moved.
  uint32_t batched_count = 0;
  std::array<Batched, kMaxBatched> batched;
  uint64_t swap_add = 0;
  uint64_t compare = 0;

  bool succeeded = false;
  uint64_t original = 0;  ///< kFetchAdd, kCompareSwap: what was there before.

  WaitingFrames::JobFrames frames_held;  ///< Counts `frame` and those of `batched`.
  uint64_t value = 0;                    ///< Room for eight bytes to place.
  rte_mbuf* frame = nullptr;             ///< Freed with the job if its owner has gone.
  QueuePair* owner = nullptr;            ///< Used by the worker; null once the queue pair has gone.
  uint32_t worker = 0;                   ///< The worker that the job belongs to; set by Submit.
  uint64_t generation = 0;               ///< Set by Submit; see JobGenerations.
  std::atomic<Phase> phase{Phase::kAtWorker};
  CopyLanes* lanes = nullptr;  ///< Those that have the job (kInLane); the worker's.
  CopyJob* next = nullptr;

  /// The bytes of all pieces.
  uint32_t bytes() const;
  /// How many system calls the daemon needs to move the pieces: one for each range of the program.
  uint32_t ranges() const;
  /// Says of the newest piece whether a message ends with it.
  void SetEnd(bool ends_message) {
    if (piece_count != 0) pieces[piece_count - 1].ends_message = ends_message;
  }
  /// Releases the references to the frames of `batched`.
  void DropBatched();
  ~CopyJob();
};

/// A FIFO of jobs. It needs no bound: it holds at most one job per queue pair.
class CopyJobQueue {
 public:
  /// Any thread.
  void Post(CopyJob* job);
  /// Returns the oldest job, or null when there is none. One thread calls it.
  CopyJob* Take();
  /// Called by the thread that takes.
  bool empty() const {
    return taken_ == nullptr && newest_.load(std::memory_order_acquire) == nullptr;
  }

 private:
  std::atomic<CopyJob*> newest_{nullptr};
  CopyJob* taken_ = nullptr;  // In order, linked by `next`.
};

/// A program's memory, and the means to access it.
struct ProgramMemory {
  int fd = -1;  ///< The program's /proc/self/mem, open for reading and writing; the helper owns it.
  Credentials user;  ///< The helper accesses memory as this user, unprivileged.
  /// Whether workers may access the memory themselves. A worker may then wait for the program, such
  /// as for a lock of its address space.
  bool by_workers = false;
  std::chrono::nanoseconds long_access = std::chrono::milliseconds(1);  ///< See AccessRest.
  std::shared_ptr<void> place;  ///< Held while the thread lives.
  /// Called once, on the helper's thread, when the process has ended and so has no memory.
  std::function<void()> on_end;
};

/// How long a worker leaves a program's memory to the helper, because accesses to it took long: so
/// a program whose pages come slowly takes a tenth of the worker's time at most. One long access is
/// no reason, since a worker may lose its CPU at any time.
class AccessRest {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// A rest begins with the second long one of so many accesses.
  static constexpr uint32_t kFew = 100;
  static constexpr int kTimesAsLong = 10;

  bool IsOn(Time now) const { return now < until_; }
  /// An access that took `long_access` or more was long.
  void Note(Time begin, Time end, Time::duration long_access);

 private:
  Time until_{};
  uint32_t since_long_ = kFew;  ///< Accesses since the last long one, up to kFew.
};

/// How fast a worker accesses a program's memory itself. Processors and kernels differ by far:
/// where the worker is slow, the program's thread makes large copies.
class AccessSpeed {
 public:
  /// As fast as a lane moves the bytes of one queue pair.
  static constexpr std::chrono::nanoseconds kSlowestOf64KiB{24'000};
  /// A lane makes so many copies for one that the worker makes to measure again.
  static constexpr uint32_t kLaneCopies = 256;
  static constexpr uint32_t kWindow = 16;

  /// A worker has moved `bytes`, 1 or more.
  void Note(uint32_t bytes, std::chrono::nanoseconds took);
  void NoteLane() { ++lane_copies_; }
  /// Whether a lane is the faster way for the next large copy.
  bool IsSlow() const { return is_slow_ && lane_copies_ < kLaneCopies; }

 private:
  uint64_t least_ = UINT64_MAX;  ///< ns of 64 KiB, within the window: a worker may lose its CPU.
  uint32_t copies_ = 0;          ///< Within the window.
  uint32_t lane_copies_ = 0;     ///< Since the worker's last one.
  bool is_slow_ = false;
};

/// The helper of one session, for all workers. It does one job after the other, in the order of
/// Submit, so atomics on copied memory are atomic with respect to each other. A job on the memory
/// of a process that has ended never comes back: peers see a silent program, not one that refuses
/// their requests. `on_end` tells the helper's creator, which ends the program's queue pairs.
class CopyHelper {
 public:
  /// `wake_fds` has one eventfd per worker, which a sleeping worker waits on. The helper keeps
  /// duplicates. The thread starts with the first job.
  CopyHelper(ProgramMemory memory, std::span<const int> wake_fds);
  /// Tells the thread to end, and does not join it: the thread may hang in the program's memory.
  /// The thread keeps all that it needs. AwaitAll waits for the threads that do not hang.
  ~CopyHelper();
  /// Waits, up to a second, until no thread of a destroyed helper is left. Called before frames go.
  static void AwaitAll();
  CopyHelper(const CopyHelper&) = delete;
  CopyHelper& operator=(const CopyHelper&) = delete;

  // ---- each worker, for itself ----
  /// Does `job` at once, on the calling thread, and sets `succeeded`. False: the helper has to do
  /// it, since workers may not access the memory, since accesses take long (AccessRest), since the
  /// process has ended, or since an atomic would not exclude those of other threads.
  [[nodiscard]] bool DoNow(uint32_t worker, CopyJob& job);
  /// Whether the program itself would make a copy of so many bytes in so many ranges now: Submit is
  /// the faster way then.
  bool IsForProgram(uint32_t worker, uint32_t bytes, uint32_t ranges) const;
  /// Has the program's thread make the copy, where its lane takes it, or the helper.
  void Submit(uint32_t worker, CopyJob* job);
  /// Returns a finished job of this worker, or null. The caller deletes a job whose owner is null.
  CopyJob* PollDone(uint32_t worker);
  /// The queue pair of the job was reset or ends. Neither the program nor the helper's thread
  /// begins the job any more. One that is begun and that writes is a late write until its last byte
  /// is moved.
  void Abandon(CopyJob& job);
  /// The number of jobs of this worker that PollDone has not returned.
  uint32_t in_flight(uint32_t worker) const;
  /// Of these: the number of those that the program has to make. The worker looks after them within
  /// CopyLanes::kPatience.
  uint32_t in_lane(uint32_t worker) const;
  /// Whether jobs of this worker may wait for the program's stage or the lanes behind it.
  bool AwaitsStage(uint32_t worker) const;
  /// Called before the worker sleeps. False: a job is done, so the worker must not sleep.
  [[nodiscard]] bool AnnounceSleep(uint32_t worker);
  void AnnounceAwake(uint32_t worker);

  // ---- control ----
  /// The number of jobs submitted so far.
  uint64_t submitted() const;
  /// That of the newest job. AreDone with it tells whether all jobs so far are done, in whatever
  /// order: those at least that were submitted before a grace period.
  uint64_t generation() const;
  bool AreDone(uint64_t generation) const;
  /// Whether late writes are under way: see Abandon. They may not end before the process does.
  bool HasLateWrites() const;
  /// ProgramMemory::by_workers. Any thread.
  bool is_by_workers() const;
  /// Gives the helper the stage of the program, once, before the first staged piece is submitted.
  void SetStage(std::unique_ptr<Stage> stage);
  /// The same, and the lanes behind the stage.
  void SetStage(std::unique_ptr<Stage> stage, std::unique_ptr<CopyLanes> lanes);
  /// Gives the helper the lanes of the program, once, before the first copy.
  void SetLanes(std::unique_ptr<CopyLanes> lanes);
  /// Those of the program's lanes; null before SetLanes.
  const LaneCounters* lane_counters() const;
  /// The number of the daemon's workers.
  uint32_t workers() const;
  /// Those of the program's stage; null before SetStage.
  const StageCounters* stage_counters() const;
  /// Those of the lanes behind it; null where it has none.
  const LaneCounters* stage_lane_counters() const;

 private:
  struct Shared;
  static void Run(const std::shared_ptr<Shared>& shared);
  /// Starts the thread, once. False: the system refuses it; the jobs wait. Any thread.
  bool Launch();
  void GiveToThread(CopyJob* job);

  std::shared_ptr<Shared> shared_;
};

// Turns pieces of a copy job into the vectors that preadv and pwritev take.

/// Contiguous bytes of the program, for one system call.
struct CopyVector {
  std::array<iovec, 2 * CopyJob::kMaxPieces> entries;
  int count = 0;
};

/// Gathers the pieces from `first` on that are contiguous in the program's memory. None is staged.
/// The last eight bytes of a piece of a kWrite that ends a message (an aligned piece, or as much of
/// it as the message has) get their own entry, because programs poll on them. The kernel treats the
/// entries as follows:
/// - It copies one entry after the other, and each entry page by page, in rising
///   addresses. All bytes of an entry are visible before those of the next one.
/// - Within a page it copies by one string instruction (processors with FSRM) or by
///   quadwords, upwards or downwards, depending on the addresses. So there is no
///   order within a page: the last line has been seen before the line in front of
///   it.
/// - An entry of eight aligned bytes is one quadword without FSRM. With FSRM no
///   manual says so, but no such entry has been seen in parts.
CopyVector GatherPieces(const CopyJob& job, uint32_t first);

}  // namespace uroce::datapath
