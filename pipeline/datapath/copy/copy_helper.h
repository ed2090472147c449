// SPDX-License-Identifier: Apache-2.0
// The thread of one session that touches memory which only the program's own address space holds.
// Such an access may block for as long as the program likes, so no worker ever makes it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "nic/base/credentials.h"
#include "pipeline/base/types.h"
#include "pipeline/datapath/frames/waiting_frames.h"

struct rte_mbuf;

namespace uroce::datapath {

class QueuePair;

/// Contiguous bytes of a program's address space, and as many of ours.
struct CopyPiece {
  uint64_t app_addr = 0;
  uint8_t* bytes = nullptr;  ///< In a frame, or in the job. Of atomics: null.
  uint32_t length_bytes = 0;
};

/// One job. Belongs to a queue pair, and so to one worker; to the helper from Submit until
/// PollDone returns it.
struct CopyJob {
  enum class Kind : uint8_t { kRead, kWrite, kFetchAdd, kCompareSwap };
  static constexpr uint32_t kMaxPieces = 32;
  static constexpr uint32_t kMaxBatched = 15;

  /// What is taken batched for a later packet: the wait for the helper is long, its work short.
  struct Batched {
    rte_mbuf* frame = nullptr;  ///< Where the bytes are; the job has a reference.
    uint32_t pieces_end = 0;    ///< Whole when so many pieces have been moved.
  };

  Kind kind = Kind::kRead;
  uint32_t piece_count = 0;
  uint32_t own_pieces = 0;    ///< The first ones. The job fails with one of these, not with others.
  uint32_t moved_pieces = 0;  ///< The helper's answer: the first so many.
  std::array<CopyPiece, kMaxPieces> pieces;  ///< Advance as they are moved.
  uint32_t batched_count = 0;
  std::array<Batched, kMaxBatched> batched;
  uint64_t swap_add = 0;
  uint64_t compare = 0;

  bool succeeded = false;
  uint64_t original = 0;  ///< kFetchAdd, kCompareSwap: what was there before.

  WaitingFrames::JobFrames frames_held;  ///< Counts `frame` and those of `batched`.
  uint64_t value = 0;                    ///< Room for eight bytes to place.
  rte_mbuf* frame = nullptr;             ///< Freed with the job if nobody waits for it any more.
  QueuePair* owner = nullptr;            ///< The worker's; null once the queue pair has gone.
  uint32_t worker = 0;                   ///< Whose it is; set by Submit.
  CopyJob* next = nullptr;

  /// Lets go of the frames of `batched`.
  void DropBatched();
  ~CopyJob();
};

/// FIFO without a bound of its own: it holds at most one job per queue pair.
class CopyJobQueue {
 public:
  /// Any thread.
  void Post(CopyJob* job);
  /// One thread. The oldest job, or null.
  CopyJob* Take();
  /// The taking thread.
  bool empty() const {
    return taken_ == nullptr && newest_.load(std::memory_order_acquire) == nullptr;
  }

 private:
  std::atomic<CopyJob*> newest_{nullptr};
  CopyJob* taken_ = nullptr;  // In order, linked by `next`.
};

/// A program's memory, and how it is touched.
struct ProgramMemory {
  int fd = -1;  ///< Its /proc/self/mem, open for reading and writing; the helper's from then on.
  Credentials user;             ///< On whose behalf it is touched, without any privilege.
  std::shared_ptr<void> place;  ///< Held while the thread lives.
  /// Called once, on the thread, when the process has no memory any more: it has ended.
  std::function<void()> on_end;
};

/// The helper of one session, for all workers. It does one job after the other, in the order of
/// Submit, so atomics on copied memory are atomic with respect to each other. A job into the memory
/// of a process that has ended never comes back: to its peers such a program is silent, not one
/// that refuses what they ask. Whoever made the helper is told, and ends its queue pairs.
class CopyHelper {
 public:
  /// `wake_fds` has for each worker an eventfd that it waits on asleep; duplicates are kept. Throws
  /// std::system_error where the system refuses the thread.
  CopyHelper(ProgramMemory memory, std::span<const int> wake_fds);
  /// Tells the thread to end and leaves it behind with all it needs: it may hang in the program's
  /// memory. AwaitAll waits for those that do not.
  ~CopyHelper();
  /// Waits, up to a second, until no thread of a destroyed helper is left: before the frames go.
  static void AwaitAll();
  CopyHelper(const CopyHelper&) = delete;
  CopyHelper& operator=(const CopyHelper&) = delete;

  // ---- each worker, for itself ----
  void Submit(uint32_t worker, CopyJob* job);
  /// A finished job of this worker, or null. One whose owner is null is the caller's to delete.
  CopyJob* PollDone(uint32_t worker);
  /// Jobs of this worker that PollDone has not returned.
  uint32_t in_flight(uint32_t worker) const;
  /// Before the worker sleeps; false: a job is done, it must not. And after.
  [[nodiscard]] bool AnnounceSleep(uint32_t worker);
  void AnnounceAwake(uint32_t worker);

  // ---- control ----
  /// Jobs submitted so far; AreDone of that number tells when all of them are. Exact for those that
  /// were submitted before a grace period.
  uint64_t submitted() const;
  bool AreDone(uint64_t jobs) const;

 private:
  struct Shared;
  static void Run(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;
};

}  // namespace uroce::datapath
