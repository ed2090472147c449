// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/poller.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pipeline/shm/rings/completion_queue.h"
#include "verbs-shim/support.h"

namespace uroce::shim {

// ---- Time slices ----

namespace {

constexpr uint64_t kShortSliceNs = 100'000;  ///< The shortest that Linux grants.

}  // namespace

void AskForShortSlices() {
  SchedAttr attr;
  if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) != 0) return;
  if (attr.policy != SCHED_OTHER && attr.policy != SCHED_BATCH) return;
  if (attr.slice_ns <= kShortSliceNs) return;
  attr.slice_ns = kShortSliceNs;
  syscall(SYS_sched_setattr, 0, &attr, 0);
}

// ---- The waits of a thread ----

namespace {

/// A thread polls all its queues within so many polls.
constexpr uint32_t kPollsOfRound = 64;

int64_t NowNs() { return static_cast<int64_t>(ClockNs(CLOCK_MONOTONIC)); }

uroce_line32& WordOf(const DaemonConnection& connection) {
  return reinterpret_cast<uroce_arena_header*>(connection.arena())->pollers;
}

}  // namespace

constinit thread_local Poller t_poller;

void Poller::BeginRound() {
  connection_ = nullptr;
  count_ = 0;
  bits_ = 0;
  has_others_ = is_announced_ = false;
}

void Poller::Note(const CompletionQueue& cq) {
  const uint32_t handle = cq.verbs.handle;
  if (connection_ == nullptr) connection_ = cq.connection;
  for (uint32_t i = 0; i < count_; ++i) {
    if (handles_[i] != handle) continue;
    polled_ |= 1u << i;
    return;
  }
  is_announced_ = false;
  has_others_ |= count_ == kMostQueues || cq.connection != connection_;
  if (has_others_) return;
  handles_[count_++] = handle;
  bits_ |= rings::PollerBit(handle);
}

bool Poller::MaySleep(int64_t now_ns) const {
  return !contention_.MayYield(now_ns) && count_ != 0 && !has_others_ &&
         empty_polls_ >= kEmptyPollsBeforeWait;
}

bool Poller::Wait() {
  const int64_t now_ns = NowNs();
  if (!MaySleep(now_ns)) {
    Yield(now_ns);
    return true;
  }
  uroce_line32& word = WordOf(*connection_);
  if (!is_announced_) {
    value_ = rings::AnnouncePoller(word, bits_);
    is_announced_ = true;
    announced_at_ = empty_polls_;
    polled_ = 0;
    return false;
  }
  const bool are_all_polled = polled_ == (1u << count_) - 1;
  if (!are_all_polled && empty_polls_ - announced_at_ < kPollsOfRound) return false;
  is_announced_ = false;
  if (are_all_polled) {
    Sleep(word, now_ns);
  } else {
    BeginRound();  // The thread has ceased to poll one of the queues.
    Yield(now_ns);
  }
  return true;
}

void Poller::Yield(int64_t now_ns) {
  sched_yield();
  const int64_t after_ns = NowNs();
  contention_.OnYield(after_ns - now_ns, after_ns);
  if (has_asked_ || !contention_.is_known()) return;
  has_asked_ = true;
  AskForShortSlices();
}

void Poller::Sleep(uroce_line32& word, int64_t now_ns) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  const bool is_short = now_ns < short_until_ns_;
  const int64_t until_ns = now_ns + (is_short ? kShortSleepNs : kLongestSleepNs);
  const timespec until = {until_ns / kNsPerSecond, until_ns % kNsPerSecond};
  const long result =
      syscall(SYS_futex, &word.value, FUTEX_WAIT_BITSET, value_, &until, nullptr, bits_);
  const bool is_vain = result != 0 && errno == ETIMEDOUT;
  vain_sleeps_ = is_vain ? vain_sleeps_ + 1 : 0;
  if (vain_sleeps_ >= kMostVainSleeps && !is_short) short_until_ns_ = until_ns + kShortSleepsNs;
}

}  // namespace uroce::shim
