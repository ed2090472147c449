// SPDX-License-Identifier: Apache-2.0
// How a thread waits whose polls of completion queues find nothing, and the time slices of threads
// that poll on a core that others use too.
#pragma once

#include <stdint.h>

#include "pipeline/base/cpu.h"
#include "verbs-shim/objects.h"

namespace uroce::shim {

// ---- The time slices of threads that poll on a core that others use too ----

/// How the kernel schedules a thread: what sched_setattr(2) takes, for which libc has no header.
struct SchedAttr {
  uint32_t size = sizeof(SchedAttr);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t slice_ns = 0;  ///< sched_runtime. 0: the kernel has slices of one size.
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

/// Asks the kernel for slices of 100 us for this thread (Linux 6.12; older ones have no such wish):
/// it gets its core back sooner after a yield or a sleep. Its share of the core stays the same. A
/// thread with a policy other than SCHED_OTHER and SCHED_BATCH, or with shorter slices, keeps what
/// it has.
void AskForShortSlices();

// ---- The waits of a thread ----

/// The waits of one thread. It yields its core; where others want the core, it sleeps until one of
/// the queues that it polls has a CQE (pipeline/shm/abi/uroce_arena.h, `pollers`). Measured, 2
/// cores, 64 B WRITEs beside one busy process: 0.9 M/s with yields, 2.4 with sleeps, 3.5 without
/// the process.
class Poller {
 public:
  /// So many polls find nothing before a thread waits. One that spins on keeps the worker that it
  /// waits for from the core: for time slices of 4 to 11 ms when the two share a core.
  static constexpr uint32_t kEmptyPollsBeforeWait = 16;
  /// A thread that polls more queues in turn than these yields.
  static constexpr uint32_t kMostQueues = 4;
  /// As long as a time slice. A program may also wait for something else than completions, and who
  /// sets a timer before the next tick of its core pays for it.
  static constexpr int64_t kLongestSleepNs = 4'000'000;
  /// After so many sleeps in a row that no completion ended, the thread is taken to wait for
  /// something else too.
  static constexpr uint32_t kMostVainSleeps = 4;
  /// Its sleeps last kShortSleepNs then, for kShortSleepsNs: it sees the other thing about as soon
  /// as behind the time slices of other threads, and leaves them more of the core than by yields.
  static constexpr int64_t kShortSleepNs = 250'000;
  static constexpr int64_t kShortSleepsNs = 100'000'000;

  /// A poll found a completion.
  void OnCompletion() { empty_polls_ = 0; }
  /// A poll of `cq` found none.
  void OnEmpty(const CompletionQueue& cq) {
    if (empty_polls_++ == 0) BeginRound();
    if (contention_.is_known()) Note(cq);
  }
  /// Yields or sleeps. Call it after OnEmpty. False: did neither, since the thread has to poll all
  /// its queues once more before it may sleep.
  bool Wait();

 private:
  void BeginRound();
  void Note(const CompletionQueue& cq);
  bool MaySleep(int64_t now_ns) const;
  void Yield(int64_t now_ns);
  void Sleep(uroce_line32& word, int64_t now_ns);

  cpu::Contention contention_;
  bool has_asked_ = false;      ///< For short time slices.
  int64_t short_until_ns_ = 0;  ///< Sleeps are short until then.
  uint32_t vain_sleeps_ = 0;    ///< In a row.
  uint32_t empty_polls_ = 0;    ///< Since this thread's last completion.

  // The queues polled since then, as far as noted.
  DaemonConnection* connection_ = nullptr;
  uint32_t handles_[kMostQueues] = {};
  uint32_t count_ = 0;
  bool has_others_ = false;    ///< More queues, or another daemon's.
  uint32_t bits_ = 0;          ///< Of the queues, in the word.
  bool is_announced_ = false;  ///< The word has the bits.
  uint32_t announced_at_ = 0;  ///< The empty poll after which it had them.
  uint32_t polled_ = 0;        ///< Bit i: the i-th queue was polled since it was announced.
  uint32_t value_ = 0;         ///< Of the word when it was announced.
};

/// That of the calling thread.
extern constinit thread_local Poller t_poller;

}  // namespace uroce::shim
