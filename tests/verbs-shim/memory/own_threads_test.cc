// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/own_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace uroce::memory {
namespace {

TEST(OwnThreadsTest, APauseKeepsThreadsOut) {
  OwnThreads threads;
  ASSERT_TRUE(threads.Pause());
  EXPECT_TRUE(threads.Pause()) << "the holder of the registry asks more than once";
  EXPECT_FALSE(threads.TryEnter());
  threads.Resume();
  EXPECT_TRUE(threads.TryEnter());
}

TEST(OwnThreadsTest, AThreadThatDoesNotLeaveIsNotWaitedForForever) {
  OwnThreads threads;
  ASSERT_TRUE(threads.TryEnter());
  EXPECT_FALSE(threads.Pause());
  threads.Resume();
  EXPECT_FALSE(threads.TryEnter()) << "the thread is still inside";
  threads.Leave();
  EXPECT_TRUE(threads.Pause());
}

TEST(OwnThreadsTest, AForkChildHasNoSuchThreads) {
  OwnThreads threads;
  threads.Add();
  threads.Add();
  threads.Remove();
  EXPECT_EQ(threads.count(), 1u);
  ASSERT_TRUE(threads.TryEnter());
  threads.Forget();
  EXPECT_EQ(threads.count(), 0u);
  EXPECT_TRUE(threads.Pause());
}

TEST(OwnThreadsTest, NoThreadIsInsideDuringAPause) {
  OwnThreads threads;
  std::atomic<bool> stop{false};
  uint64_t guarded = 0;  // ThreadSanitizer sees a thread that goes on.
  std::thread thread([&] {
    while (!stop) {
      if (!threads.TryEnter()) continue;
      ++guarded;
      threads.Leave();
    }
  });
  uint64_t pauses = 0;
  while (pauses < 1000) {
    if (!threads.Pause()) continue;
    const uint64_t before = guarded;
    for (int i = 0; i < 100; ++i) asm volatile("" ::: "memory");
    ASSERT_EQ(guarded, before);
    threads.Resume();
    ++pauses;
  }
  stop = true;
  thread.join();
}

}  // namespace
}  // namespace uroce::memory
