// SPDX-License-Identifier: Apache-2.0
// Who sleeps on a futex that processes could share is woken, though its memory becomes a file's and
// private again.
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <thread>

#include "tests/verbs-shim/memory/fake_daemon.h"
#include "verbs-shim/memory/memory.h"
#include "verbs-shim/memory/threads.h"

namespace uroce::memory {
namespace {

constexpr size_t kBytes = 16 * kPageBytes;
constexpr int kLooks = 2000;
constexpr int kPauseUs = 10'000;

/// What a program has in its memory.
struct Shared {
  sem_t semaphore;
  uint32_t word;
};

class FutexesTest : public testing::Test {
 protected:
  void SetUp() override {
    SetPolicy(MrPolicy::kAutomatic);
    pages_ = static_cast<uint8_t*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    shared_ = new (pages_ + 5 * kPageBytes) Shared{};
    ASSERT_EQ(sem_init(&shared_->semaphore, /*pshared=*/1, 0), 0);
  }
  void TearDown() override { munmap(pages_, kBytes); }

  /// Starts two threads, and returns when both sleep.
  void Sleep() {
    on_semaphore_ = std::thread([this] {
      while (sem_wait(&shared_->semaphore) != 0) {
      }
      ++woken_;
    });
    on_word_ = std::thread([this] {
      while (std::atomic_ref(shared_->word) == 0) {
        syscall(SYS_futex, &shared_->word, FUTEX_WAIT, 0, nullptr, nullptr, 0);
      }
      ++woken_;
    });
    ASSERT_TRUE(Await([this] { return Sleepers() == 2; }));
  }
  /// Wakes both; false: one sleeps on.
  bool Wake() {
    sem_post(&shared_->semaphore);
    std::atomic_ref(shared_->word) = 1;
    syscall(SYS_futex, &shared_->word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    const bool are_woken = Await([this] { return woken_ == 2; });
    for (std::thread* thread : {&on_semaphore_, &on_word_}) {
      are_woken ? thread->join() : thread->detach();
    }
    woken_ = 0;
    shared_->word = 0;
    return are_woken;
  }

  template <typename Condition>
  static bool Await(Condition&& condition) {
    for (int look = 0; look < kLooks; ++look) {
      if (condition()) return true;
      usleep(kPauseUs);
    }
    return false;
  }

  size_t Sleepers() {
    static MappedArray<ThreadRecord> threads;
    static MappedArray<uint64_t> words;
    words.Clear();
    EXPECT_EQ(ListThreads(threads), 0);
    const auto start = reinterpret_cast<uint64_t>(pages_);
    EXPECT_TRUE(FindFutexes(threads.span(), {start, start + kBytes}, words));
    return words.size();
  }

  FakeDaemon& daemon_ = FakeDaemon::Make();
  MemoryRegistration mr_ = {};
  uint8_t* pages_ = nullptr;
  Shared* shared_ = nullptr;
  std::thread on_semaphore_, on_word_;
  std::atomic<int> woken_ = 0;
};

TEST_F(FutexesTest, WhoSleepsWhileMemoryIsRegisteredIsWoken) {
  Sleep();
  ASSERT_EQ(daemon_.Register(pages_, kBytes, mr_), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "m65536");
  EXPECT_TRUE(Wake());
  EXPECT_EQ(daemon_.Deregister(mr_), 0);
}

TEST_F(FutexesTest, WhoSleepsWhileItIsDeregisteredIsWoken) {
  ASSERT_EQ(daemon_.Register(pages_, kBytes, mr_), 0);
  Sleep();
  EXPECT_EQ(daemon_.Deregister(mr_), 0);
  EXPECT_TRUE(Wake());
}

TEST_F(FutexesTest, WhoSleepsOnRegisteredMemoryIsWoken) {
  ASSERT_EQ(daemon_.Register(pages_, kBytes, mr_), 0);
  Sleep();
  EXPECT_TRUE(Wake());
  EXPECT_EQ(daemon_.Deregister(mr_), 0);
}

}  // namespace
}  // namespace uroce::memory
