// SPDX-License-Identifier: Apache-2.0
// Regions that are long enough for copy threads: no store is lost in any part of the copies, and
// nothing depends on those threads.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/verbs-shim/memory/fake_daemon.h"
#include "tests/verbs-shim/memory/refused_threads.h"
#include "verbs-shim/memory/copy_threads.h"
#include "verbs-shim/memory/memory.h"
#include "verbs-shim/memory/pages.h"

namespace uroce::memory {
namespace {

constexpr uint64_t kBytes = kLeastThreadedBytes + kChunkBytes + 3 * kPageBytes;
constexpr uint64_t kPages = kBytes / kPageBytes;

/// Of each page, and none of them is 0.
uint64_t PatternOf(uint64_t page) { return page * 0x9e3779b97f4a7c15u | 1; }

class LongRegionsTest : public testing::Test {
 protected:
  void SetUp() override {
    SetPolicy(MrPolicy::kAutomatic);
    void* const area = mmap(nullptr, kBytes + kPageBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(area, MAP_FAILED);
    pages_ = static_cast<uint8_t*>(area) + kPageBytes;
    ASSERT_EQ(madvise(pages_, kBytes, MADV_NOHUGEPAGE), 0);
  }
  void TearDown() override { munmap(pages_ - kPageBytes, kBytes + kPageBytes); }

  volatile uint64_t& Word(uint64_t page, uint64_t index = 0) {
    return reinterpret_cast<uint64_t*>(pages_ + page * kPageBytes)[index];
  }
  void Fill() {
    for (uint64_t page = 0; page < kPages; ++page) {
      Word(page) = PatternOf(page);
      Word(page, 511) = PatternOf(page);
    }
  }
  bool HasPattern() {
    for (uint64_t page = 0; page < kPages; ++page) {
      if (Word(page) != PatternOf(page) || Word(page, 511) != PatternOf(page)) return false;
    }
    return true;
  }
  /// Registers, looks at all pages, deregisters, and looks again.
  bool KeepsPattern() {
    MemoryRegistration mr = {};
    if (daemon_.Register(pages_, kBytes, mr) != 0) return false;
    bool is_right = HasPattern() && PageKind(pages_ + kBytes / 2) == "segment";
    const uint64_t pattern = PatternOf(kPages / 2);
    const std::string middle = daemon_.Read(mr, pages_ + kPages / 2 * kPageBytes, sizeof(pattern));
    is_right &= memcmp(middle.data(), &pattern, sizeof(pattern)) == 0;
    is_right &= daemon_.Deregister(mr) == 0;
    return is_right && HasPattern() && PageKind(pages_ + kBytes / 2) == "private";
  }

  FakeDaemon& daemon_ = FakeDaemon::Make();
  uint8_t* pages_ = nullptr;
};

TEST_F(LongRegionsTest, AllPagesKeepTheirContents) {
  Fill();
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(KeepsPattern()) << round;
}

TEST_F(LongRegionsTest, WhereNoThreadStartsTheyAreAsOthers) {
  Fill();
  const pid_t child = fork();
  if (child == 0) _exit(RefuseThreads() && KeepsPattern() ? 0 : 1);
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Also a program of one thread without userfaultfd, where a second thread would be in the way.
TEST_F(LongRegionsTest, CopyThreadsAreNoThreadsOfTheProgram) {
  Fill();
  const pid_t child = fork();
  if (child == 0) {
    setenv("UROCE_USERFAULTFD", "0", 1);
    _exit(KeepsPattern() ? 0 : 1);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Copy threads copy no page that has none in the memory.
TEST_F(LongRegionsTest, PagesThatWereNeverTouchedUseNoMemory) {
  constexpr uint64_t kEach = 100;
  for (uint64_t page = 0; page < kPages; page += kEach) Word(page) = PatternOf(page);
  const uint64_t touched = (kPages + kEach - 1) / kEach;
  const auto resident = [this] {
    std::vector<unsigned char> there(kPages);
    EXPECT_EQ(mincore(pages_, kBytes, there.data()), 0);
    uint64_t count = 0;
    for (const unsigned char page : there) count += page & 1;
    return count;
  };
  MemoryRegistration mr = {};
  ASSERT_EQ(daemon_.Register(pages_, kBytes, mr), 0);
  EXPECT_EQ(daemon_.PagesInSegments(), touched);
  ASSERT_EQ(daemon_.Deregister(mr), 0);
  EXPECT_EQ(resident(), touched);
  for (uint64_t page = 0; page < kPages; page += kEach) ASSERT_EQ(Word(page), PatternOf(page));
}

// So no copy thread starts for memory that has nothing to copy.
TEST_F(LongRegionsTest, MemoryThatWasNotTouchedIsKnown) {
  const auto start = reinterpret_cast<uint64_t>(pages_);
  const int page_map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(page_map, 0);
  EXPECT_EQ(TouchedBytes(page_map, {start, start + kBytes}), 0u);
  for (uint64_t page = 0; page < kPages / 2; ++page) Word(page) = 1;
  const uint64_t half = TouchedBytes(page_map, {start, start + kBytes});
  EXPECT_GT(half, kBytes / 4);
  EXPECT_LT(half, kBytes / 4 * 3);
  EXPECT_GT(TouchedBytes(-1, {start, start + kBytes}), kBytes / 2)
      << "where the kernel tells nothing";
  close(page_map);
}

/// The bytes of huge pages in this process.
uint64_t HugeBytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  uint64_t kilobytes = 0;
  for (std::string word; file >> word;) {
    if (word == "AnonHugePages:") file >> kilobytes;
  }
  return kilobytes << 10;
}

/// Whether the kernel gives as much other memory huge pages now.
bool OtherMemoryIsHuge() {
  const uint64_t before = HugeBytes();
  void* const area =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) return false;
  madvise(area, kBytes, MADV_HUGEPAGE);
  memset(area, 1, kBytes);
  const bool is_huge = HugeBytes() > before + kBytes / 2;
  munmap(area, kBytes);
  return is_huge;
}

// The kernel chooses which memory has huge pages: where this memory has none, other memory is asked
// for too. A shim that never asks for any fails each round.
TEST_F(LongRegionsTest, HugePagesAreHugeAgain) {
  constexpr int kRounds = 5;
  ASSERT_EQ(madvise(pages_, kBytes, MADV_HUGEPAGE), 0);
  Fill();
  for (int round = 0; round < kRounds; ++round) {
    MemoryRegistration mr = {};
    ASSERT_EQ(daemon_.Register(pages_, kBytes, mr), 0);
    ASSERT_TRUE(HasPattern());
    ASSERT_EQ(daemon_.Deregister(mr), 0);
    ASSERT_TRUE(HasPattern());
    if (HugeBytes() > kBytes / 2) return;
    if (!OtherMemoryIsHuge()) GTEST_SKIP() << "the kernel gives so much memory no huge pages now";
  }
  FAIL() << "other memory has huge pages";
}

// Each writer has a word of every page and goes round them all, so that each part has writers.
TEST_F(LongRegionsTest, NoStoreIsLostInAnyPart) {
  constexpr uint64_t kWriters = 2;
  for (uint64_t page = 0; page < kPages; ++page) Word(page, kWriters) = 1;
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> begun = 0;
  std::vector<std::vector<uint64_t>> counts(kWriters, std::vector<uint64_t>(kPages));
  std::vector<std::thread> writers;
  for (uint64_t writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      ++begun;
      for (uint64_t turn = 0; !stop; ++turn) {
        const uint64_t page = turn * 7919 % kPages;
        Word(page, writer) = Word(page, writer) + 1;
        ++counts[writer][page];
      }
    });
  }
  while (begun < kWriters) std::this_thread::yield();
  for (int round = 0; round < 6; ++round) {
    MemoryRegistration mr = {};
    ASSERT_EQ(daemon_.Register(pages_, kBytes, mr), 0);
    ASSERT_EQ(daemon_.Deregister(mr), 0);
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  for (uint64_t page = 0; page < kPages; ++page) {
    for (uint64_t writer = 0; writer < kWriters; ++writer) {
      ASSERT_EQ(Word(page, writer), counts[writer][page]) << "page " << page;
    }
  }
}

}  // namespace
}  // namespace uroce::memory
