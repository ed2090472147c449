// SPDX-License-Identifier: Apache-2.0
// The threads that share a copy do each part once, are done when the copy ends, and leave nothing.
#include "verbs-shim/memory/copy_threads.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "tests/verbs-shim/memory/refused_threads.h"
#include "verbs-shim/memory/own_threads.h"
#include "verbs-shim/memory/threads.h"

namespace uroce::memory {
namespace {

constexpr uint64_t kPart = 8 * kPageBytes;
constexpr uint64_t kStart = uint64_t{1} << 30;

size_t ThreadCount() {
  static MappedArray<ThreadRecord> threads;
  EXPECT_EQ(ListThreads(threads), 0);
  return threads.size();
}

class CopyThreadsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (copy_threads_.count() == 0)
      GTEST_SKIP() << "this process may run on one CPU alone: no copy thread starts";
  }

  CopyThreads copy_threads_{kLeastThreadedBytes};
};

TEST_F(CopyThreadsTest, EachPageIsVisitedOnce) {
  for (uint64_t round = 0; round < 2000; ++round) {
    // Neither end is always that of a part.
    const AddressRange range{kStart + round % 11 * kPageBytes,
                             kStart + 20 * kPart + round % 7 * kPageBytes};
    std::vector<std::atomic<int>> visits((range.end - kStart) / kPageBytes);
    const int64_t result = copy_threads_.ForEachPart(range, kPart, [&](AddressRange part) {
      EXPECT_LE(part.end - part.start, kPart);
      for (uint64_t page = part.start; page < part.end; page += kPageBytes) {
        visits[(page - kStart) / kPageBytes] += 1;
      }
      return int64_t{0};
    });
    ASSERT_EQ(result, 0);
    for (size_t page = 0; page < visits.size(); ++page) {
      ASSERT_EQ(visits[page], page >= round % 11 ? 1 : 0) << page << " in round " << round;
    }
  }
}

// The pages are exchanged next.
TEST_F(CopyThreadsTest, AllPartsAreDoneWhenItReturns) {
  const int64_t self = syscall(SYS_gettid);
  std::atomic<bool> has_shared = false;
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> begun = 0, done = 0;
    (void)copy_threads_.ForEachPart({kStart, kStart + 8 * kPart}, kPart, [&](AddressRange) {
      ++begun;
      const bool is_other = syscall(SYS_gettid) != self;
      if (is_other) has_shared = true;
      std::this_thread::sleep_for(std::chrono::microseconds(is_other ? 3000 : 200));
      ++done;
      return int64_t{0};
    });
    ASSERT_EQ(done, begun);
    ASSERT_EQ(done, 8);
  }
  EXPECT_TRUE(has_shared);
}

TEST_F(CopyThreadsTest, AnErrorInAnyPartIsReturned) {
  for (uint64_t bad = 0; bad < 8; ++bad) {
    const int64_t result =
        copy_threads_.ForEachPart({kStart, kStart + 8 * kPart}, kPart, [bad](AddressRange part) {
          return part.start == kStart + bad * kPart ? -int64_t{EIO} : int64_t{0};
        });
    EXPECT_EQ(result, -EIO) << bad;
  }
  const auto succeed = [](AddressRange) { return int64_t{0}; };
  EXPECT_EQ(copy_threads_.ForEachPart({kStart, kStart + 8 * kPart}, kPart, succeed), 0)
      << "next work";
}

// A signal of the program must not be handled while pages are protected. SIGSEGV stays: see
// CanAllWait().
TEST_F(CopyThreadsTest, ACopyThreadBlocksAllSignalsButSegv) {
  const int64_t self = syscall(SYS_gettid);
  std::atomic<uint64_t> mask = 0;
  for (int round = 0; round < 100'000 && mask == 0; ++round) {
    (void)copy_threads_.ForEachPart({kStart, kStart + 64 * kPart}, kPart, [&](AddressRange) {
      uint64_t here = 0;
      syscall(SYS_rt_sigprocmask, SIG_SETMASK, nullptr, &here, sizeof(here));
      if (syscall(SYS_gettid) != self) mask = here;
      return int64_t{0};
    });
  }
  const auto blocks = [&mask](int signal) { return (mask >> (signal - 1) & 1) != 0; };
  EXPECT_TRUE(blocks(SIGTERM));
  EXPECT_TRUE(blocks(SIGUSR1));
  EXPECT_TRUE(blocks(SIGALRM));
  EXPECT_FALSE(blocks(SIGSEGV));
}

TEST(CopyThreadsLifeTest, TheyAreThreadsOfTheLibraryAndGoWithTheirObject) {
  const size_t before = ThreadCount();
  for (int round = 0; round < 200; ++round) {
    {
      const CopyThreads copy_threads(kLeastThreadedBytes);
      ASSERT_EQ(ThreadCount(), before + copy_threads.count());
      ASSERT_EQ(g_own_threads.count(), copy_threads.count());
    }
    ASSERT_EQ(ThreadCount(), before) << "a program of one thread is one again";
    ASSERT_EQ(g_own_threads.count(), 0u);
  }
}

std::atomic<bool> have_ended;

/// A thread that is cancelled while it has copy threads. AddressSanitizer would take the stack for
/// that of this function also after the cancellation has left it.
[[gnu::no_sanitize("address")]] void* CancelWithCopyThreads(void*) {
  pthread_cancel(pthread_self());
  { const CopyThreads copy_threads(kLeastThreadedBytes); }
  have_ended = true;
  for (;;) pthread_testcancel();
}

// Its end waits for them, and they use the object until then.
TEST(CopyThreadsLifeTest, ACancelledThreadEndsThemFirst) {
  have_ended = false;
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, nullptr, CancelWithCopyThreads, nullptr), 0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_TRUE(have_ended);
  EXPECT_EQ(result, PTHREAD_CANCELED);
}

TEST(CopyThreadsLifeTest, ShortMemoryHasNone) {
  EXPECT_EQ(CopyThreads(kLeastThreadedBytes - 1).count(), 0u);
}

TEST(CopyThreadsLifeTest, OneCpuHasNone) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(CopyThreads(kLeastThreadedBytes).count(), 0u);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(CopyThreadsLifeTest, WhereNoThreadStartsTheCallerDoesAll) {
  const pid_t child = fork();
  if (child == 0) {
    if (!RefuseThreads()) _exit(2);
    CopyThreads copy_threads(kLeastThreadedBytes);
    uint64_t bytes = 0;
    (void)ForEachPart(&copy_threads, {kStart, kStart + 3 * kPart}, kPart,
                      [&bytes](AddressRange part) {
                        bytes += part.end - part.start;
                        return int64_t{0};
                      });
    _exit(copy_threads.count() == 0 && g_own_threads.count() == 0 && bytes == 3 * kPart ? 0 : 1);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace uroce::memory
