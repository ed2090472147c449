// SPDX-License-Identifier: Apache-2.0
// Stacks and control blocks are found for every thread.
#include "verbs-shim/memory/threads.h"

#include <gtest/gtest.h>

#include <latch>
#include <thread>
#include <vector>

namespace uroce::memory {
namespace {

Vma Anonymous(uint64_t start, uint64_t end) {
  return {.start = start,
          .end = end,
          .file_offset = 0,
          .inode = 0,
          .readable = true,
          .writable = true,
          .executable = false,
          .shared = false,
          .kind = VmaKind::kAnonymous};
}

std::vector<std::pair<uint64_t, uint64_t>> Untouchable(const ThreadFacts& facts) {
  MappedArray<AddressRange> ranges;
  EXPECT_TRUE(FindUntouchable(facts, ranges));
  std::vector<std::pair<uint64_t, uint64_t>> result;
  for (const AddressRange& range : ranges) result.emplace_back(range.start, range.end);
  ranges.Release();
  return result;
}

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

TEST(ThreadsTest, AThreadsStackReachesFromItsMappingsStartToItsControlBlock) {
  const std::vector<Vma> mappings = {Anonymous(0x100000, 0x200000)};
  const std::vector<ThreadRecord> threads = {{.control_block = 0x17f9e0, .is_main = false}};
  EXPECT_EQ(Untouchable({mappings, threads, 0x3000, 0, TlsPlace::kBelow}),
            (Ranges{{0x100000, 0x181000}}));
}

// Large blocks of malloc are often placed right below the main thread's storage.
TEST(ThreadsTest, OfTheMainThreadOnlyTheThreadLocalStorage) {
  const std::vector<Vma> mappings = {Anonymous(0x100000, 0x200000)};
  const std::vector<ThreadRecord> threads = {{.control_block = 0x17f9e0, .is_main = true}};
  EXPECT_EQ(Untouchable({mappings, threads, 0x3000, 0, TlsPlace::kBelow}),
            (Ranges{{0x17c000, 0x181000}}));
}

TEST(ThreadsTest, ThreadLocalStorageAboveTheControlBlock) {
  const std::vector<Vma> mappings = {Anonymous(0x100000, 0x200000)};
  std::vector<ThreadRecord> threads = {{.control_block = 0x17f9e0, .is_main = false}};
  EXPECT_EQ(Untouchable({mappings, threads, 0x3000, 0, TlsPlace::kAbove}),
            (Ranges{{0x100000, 0x184000}}));
  threads[0].is_main = true;
  EXPECT_EQ(Untouchable({mappings, threads, 0x3000, 0, TlsPlace::kAbove}),
            (Ranges{{0x17e000, 0x184000}}));
}

TEST(ThreadsTest, TheEndOfTheMappingIsTheEnd) {
  const std::vector<Vma> mappings = {Anonymous(0x17f000, 0x180000)};
  const std::vector<ThreadRecord> threads = {{.control_block = 0x17f9e0, .is_main = true}};
  EXPECT_EQ(Untouchable({mappings, threads, 0x3000, 0, TlsPlace::kBelow}),
            (Ranges{{0x17f000, 0x180000}}));
}

TEST(ThreadsTest, ACoroutinesStackIsTheNeighbourhoodOfTheFrame) {
  const std::vector<Vma> mappings = {Anonymous(0x1000000, 0x8000000)};
  EXPECT_EQ(Untouchable({mappings, {}, 0x3000, 0x2000010}), (Ranges{{0x1ff0000, 0x2801000}}));
}

TEST(ThreadsTest, ThreadsWithoutAControlBlockAreNotLookedFor) {
  const std::vector<Vma> mappings = {Anonymous(0x100000, 0x200000)};
  const std::vector<ThreadRecord> threads = {{.control_block = 0, .is_main = false}};
  EXPECT_EQ(Untouchable({mappings, threads, 0x3000, 0, TlsPlace::kBelow}), Ranges{});
}

TEST(ThreadsTest, EveryThreadOfThisProcessIsListed) {
  constexpr int kThreads = 20;
  std::latch started(kThreads), listed(1);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      started.count_down();
      listed.wait();
    });
  }
  started.wait();
  MappedArray<ThreadRecord> records;
  EXPECT_EQ(ListThreads(records), 0);
  listed.count_down();
  EXPECT_EQ(records.size(), kThreads + 1u);
  int near_self = 0;
  const auto self = static_cast<uint64_t>(pthread_self());
  for (const ThreadRecord& record : records) {
    EXPECT_NE(record.control_block, 0u);
    if (record.control_block - self < 4096) ++near_self;
  }
  EXPECT_EQ(near_self, 1);
  for (std::thread& thread : threads) thread.join();
  records.Release();
}

thread_local char large[100000];

TEST(ThreadsTest, ThreadLocalStorageIsCounted) {
  const auto self = static_cast<uint64_t>(pthread_self());
  const auto storage = reinterpret_cast<uint64_t>(large);
  if (kOwnTlsPlace == TlsPlace::kBelow) {
    EXPECT_LE(self - storage, StaticTlsBytes());
  } else {
    constexpr uint64_t kMostOfAControlBlock = 4096;
    EXPECT_LE(storage + sizeof large - self, StaticTlsBytes() + kMostOfAControlBlock);
  }
}

}  // namespace
}  // namespace uroce::memory
