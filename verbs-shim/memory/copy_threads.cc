// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/copy_threads.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <climits>
#include <ctime>

#include "verbs-shim/memory/own_threads.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {
namespace {

constexpr size_t kCopyStackBytes = 256 << 10;
constexpr uint64_t kMaskWords = 128;  // for 8192 CPUs
constexpr int kYields = 100;          // some tens of microseconds: a part takes no longer
constexpr int kGoneLooks = 10'000;    // for a thread that has ended
constexpr timespec kBetweenGoneLooks{.tv_sec = 0, .tv_nsec = 20'000};

/// How many CPUs the calling thread may run on; 1 where the kernel does not tell.
uint32_t AllowedCpus() {
  uint64_t mask[kMaskWords] = {};
  if (SystemCall(SYS_sched_getaffinity, 0, sizeof(mask), mask) < 0) return 1;
  int count = 0;
  for (const uint64_t word : mask) count += __builtin_popcountll(word);
  return count < 1 ? 1 : static_cast<uint32_t>(count);
}

void Wait(const uint32_t& word, uint32_t value) {
  SystemCall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, 0, 0, 0);
}
void WakeAll(const uint32_t& word) {
  SystemCall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
}

/// pthread_join returns a moment before the kernel forgets the thread, and a process whose threads
/// are counted then would seem to have another one.
void AwaitGone(int64_t id) {
  const int64_t process = SystemCall(SYS_getpid);
  for (int look = 0; look < kGoneLooks; ++look) {
    if (SystemCall(SYS_tgkill, process, id, 0) == -ESRCH) return;
    SystemCall(SYS_nanosleep, &kBetweenGoneLooks, 0);
  }
}

}  // namespace

uint32_t CopyThreads::ThreadsFor(uint64_t bytes) {
  if (bytes < kLeastThreadedBytes) return 0;
  const uint32_t others = AllowedCpus() - 1;
  return others < kMostCopyThreads ? others : kMostCopyThreads;
}

CopyThreads::CopyThreads(uint64_t bytes) {
  const uint32_t wanted = ThreadsFor(bytes);
  if (wanted == 0) return;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  while (count_ < wanted && StartOne()) {
  }
  if (count_ == 0) pthread_setcancelstate(cancel_state_, nullptr);
}

bool CopyThreads::StartOne() {
  sigset_t all;
  sigset_t former;
  sigfillset(&all);
  sigdelset(&all, SIGSEGV);  // See CanAllWait().
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, kCopyStackBytes);
  Thread& started = threads_[count_];
  started.owner = this;
  pthread_t thread;
  pthread_sigmask(SIG_SETMASK, &all, &former);
  const bool is_started = pthread_create(&thread, &attributes, Main, &started) == 0;
  pthread_sigmask(SIG_SETMASK, &former, nullptr);
  pthread_attr_destroy(&attributes);
  if (!is_started) return false;
  started.pthread = thread;
  ++count_;
  g_own_threads.Add();
  return true;
}

CopyThreads::~CopyThreads() {
  if (count_ == 0) return;
  // Uncounted first: a thread that is counted and not there would hide one of the program.
  for (uint32_t i = 0; i < count_; ++i) g_own_threads.Remove();
  __atomic_store_n(&ends_, true, __ATOMIC_RELAXED);
  __atomic_add_fetch(&calls_, 1, __ATOMIC_RELEASE);
  WakeAll(calls_);
  for (uint32_t i = 0; i < count_; ++i) {
    pthread_join(threads_[i].pthread, nullptr);
    AwaitGone(threads_[i].id);
  }
  pthread_setcancelstate(cancel_state_, nullptr);
}

void* CopyThreads::Main(void* thread) {
  auto* const self = static_cast<Thread*>(thread);
  self->id = SystemCall(SYS_gettid);
  SystemCall(SYS_prctl, PR_SET_NAME, "uroce-memory", 0, 0, 0);
  self->owner->Serve();
  return nullptr;
}

void CopyThreads::Serve() {
  for (;;) {
    const uint32_t calls = __atomic_load_n(&calls_, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&ends_, __ATOMIC_RELAXED)) return;
    if (Enter()) {
      DoParts(End::kBack);
      Leave();
    }
    Wait(calls_, calls);
  }
}

bool CopyThreads::Enter() {
  uint32_t gate = __atomic_load_n(&gate_, __ATOMIC_RELAXED);
  while ((gate & kOpen) != 0) {
    if (__atomic_compare_exchange_n(&gate_, &gate, gate + 1, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED)) {
      return true;
    }
  }
  return false;
}

void CopyThreads::Leave() {
  if (__atomic_sub_fetch(&gate_, 1, __ATOMIC_ACQ_REL) == 0) WakeAll(gate_);
}

int64_t CopyThreads::Share(const Work& work) {
  work_ = work;
  first_part_ = work.range.start / work.part_bytes;
  const uint64_t end = (work.range.end + work.part_bytes - 1) / work.part_bytes;
  __atomic_store_n(&parts_, (end - first_part_) << 32, __ATOMIC_RELAXED);
  __atomic_store_n(&result_, int64_t{0}, __ATOMIC_RELAXED);
  __atomic_store_n(&gate_, kOpen, __ATOMIC_RELEASE);
  __atomic_add_fetch(&calls_, 1, __ATOMIC_RELEASE);
  WakeAll(calls_);
  DoParts(End::kFront);
  uint32_t gate = __atomic_and_fetch(&gate_, ~kOpen, __ATOMIC_ACQ_REL);
  for (int turn = 0; gate != 0; gate = __atomic_load_n(&gate_, __ATOMIC_ACQUIRE)) {
    if (++turn < kYields) {
      SystemCall(SYS_sched_yield);
    } else {
      Wait(gate_, gate);
    }
  }
  return __atomic_load_n(&result_, __ATOMIC_RELAXED);
}

bool CopyThreads::TakePart(End from, uint32_t& part) {
  uint64_t parts = __atomic_load_n(&parts_, __ATOMIC_RELAXED);
  for (;;) {
    const auto first = static_cast<uint32_t>(parts), end = static_cast<uint32_t>(parts >> 32);
    if (first == end) return false;
    const uint64_t left = from == End::kFront ? parts + 1 : parts - (uint64_t{1} << 32);
    part = from == End::kFront ? first : end - 1;
    if (__atomic_compare_exchange_n(&parts_, &parts, left, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
      return true;
    }
  }
}

void CopyThreads::DoParts(End from) {
  const AddressRange range = work_.range;
  uint32_t part;
  while (__atomic_load_n(&result_, __ATOMIC_RELAXED) == 0 && TakePart(from, part)) {
    const uint64_t start = (first_part_ + part) * work_.part_bytes;
    const uint64_t end = start + work_.part_bytes;
    const int64_t result = work_.visit(
        work_.with, {start < range.start ? range.start : start, end < range.end ? end : range.end});
    if (result != 0) __atomic_store_n(&result_, result, __ATOMIC_RELAXED);
  }
}

}  // namespace uroce::memory
