// SPDX-License-Identifier: Apache-2.0
// Long regions are exchanged piece by piece, and pages without contents use no memory.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/verbs-shim/memory/fake_daemon.h"
#include "verbs-shim/memory/memory.h"
#include "verbs-shim/memory/pages.h"
#include "verbs-shim/memory/segment_table.h"

namespace uroce::memory {
namespace {

constexpr uint64_t kBytes = 10 * kChunkBytes + 3 * kPageBytes;  // Its file is kept open.
constexpr uint64_t kPlaces[] = {0, kPageBytes - 1, 5 << 20, kBytes - 1};
constexpr uint64_t kPlacePages = 3;

/// Of which it is only known that there are some.
constexpr uint64_t kLeastPieces = 2;

uint64_t ResidentPages(const uint8_t* start) {
  std::vector<unsigned char> pages(kBytes / kPageBytes);
  EXPECT_EQ(mincore(const_cast<uint8_t*>(start), kBytes, pages.data()), 0);
  uint64_t count = 0;
  for (const unsigned char page : pages) count += page & 1;
  return count;
}

class ChunksTest : public testing::Test {
 protected:
  void SetUp() override {
    SetPolicy(MrPolicy::kAutomatic);
    // Neither end lies at the end of a chunk.
    area_ = static_cast<uint8_t*>(mmap(nullptr, kBytes + 2 * kPageBytes, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    ASSERT_NE(area_, MAP_FAILED);
    ASSERT_EQ(madvise(area_, kBytes + 2 * kPageBytes, MADV_NOHUGEPAGE), 0);
    pages_ = area_ + kPageBytes;
  }
  void TearDown() override {
    if (is_registered_) Deregister();
    munmap(area_, kBytes + 2 * kPageBytes);
  }

  void Touch() {
    for (const uint64_t place : kPlaces) pages_[place] = 't';
  }
  void Register() {
    ASSERT_EQ(daemon_.Register(pages_, kBytes, mr_), 0);
    is_registered_ = true;
    ASSERT_EQ(daemon_.Shape(mr_).find('c'), std::string::npos) << daemon_.Shape(mr_);
    ASSERT_GE(daemon_.segment_count(), kLeastPieces);
  }
  void Deregister() {
    EXPECT_EQ(daemon_.Deregister(mr_), 0);
    is_registered_ = false;
  }

  FakeDaemon& daemon_ = FakeDaemon::Make();
  MemoryRegistration mr_ = {};
  bool is_registered_ = false;
  uint8_t* area_ = nullptr;
  uint8_t* pages_ = nullptr;
};

TEST_F(ChunksTest, PagesThatWereNeverTouchedUseNoMemory) {
  Touch();
  Register();
  EXPECT_EQ(daemon_.PagesInSegments(), kPlacePages);
  for (const uint64_t place : kPlaces) {
    EXPECT_EQ(daemon_.Read(mr_, pages_ + place, 1), "t") << place;
  }
  daemon_.Write(mr_, pages_ + (8 << 20), "peer");
  pages_[9 << 20] = 'o';
  EXPECT_EQ(daemon_.Read(mr_, pages_ + (9 << 20), 2), std::string("o\0", 2));
  Deregister();
  EXPECT_EQ(PageKind(pages_ + kBytes / 2), "private");
  EXPECT_EQ(ResidentPages(pages_), kPlacePages + 2);
  for (const uint64_t place : kPlaces) EXPECT_EQ(pages_[place], 't') << place;
  EXPECT_EQ(memcmp(pages_ + (8 << 20), "peer", 5), 0);
  EXPECT_EQ(pages_[9 << 20], 'o');
  EXPECT_EQ(pages_[kBytes / 2], 0);
}

TEST_F(ChunksTest, AForkChildHasThemToo) {
  Touch();
  Register();
  const pid_t child = fork();
  if (child == 0) {
    bool is_right = true;
    for (const uint64_t place : kPlaces) is_right &= pages_[place] == 't';
    is_right &= pages_[kBytes / 2] == 0;
    pages_[0] = 'c';
    _exit(is_right && ResidentPages(pages_) <= kPlacePages + 1 ? 0 : 1);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(pages_[0], 't');
  EXPECT_EQ(daemon_.PagesInSegments(), kPlacePages) << "the fork has touched no other";
}

// So a deregistration needs memory for one piece besides.
TEST_F(ChunksTest, APieceIsFreedBeforeTheNextOneBecomesPrivate) {
  memset(pages_, 't', kBytes);
  Register();
  size_t ended = 0;
  daemon_.on_destroy = [&] {
    EXPECT_EQ(FindSegmentFiles().inodes.size(), daemon_.segment_count());
    ++ended;
  };
  Deregister();
  EXPECT_GE(ended, kLeastPieces);
  EXPECT_TRUE(FindSegmentFiles().inodes.empty());
  EXPECT_EQ(std::string(reinterpret_cast<char*>(pages_), kBytes), std::string(kBytes, 't'));
}

TEST_F(ChunksTest, OnlyFilesWithHolesAreKeptOpen) {
  memset(pages_, 't', kBytes);
  Register();
  EXPECT_EQ(FindSegmentFiles().fds, 0u);
  Deregister();
  ASSERT_EQ(madvise(pages_ + PageDown(kBytes / 2), kPageBytes, MADV_DONTNEED), 0);
  Register();
  EXPECT_EQ(FindSegmentFiles().fds, 1u);
  Deregister();
  EXPECT_EQ(FindSegmentFiles().fds, 0u);
}

TEST_F(ChunksTest, AProgramKeepsABoundedNumberOfFilesOpen) {
  constexpr uint64_t kMany = kMostHeldFiles + 6;
  auto* const many =
      static_cast<uint8_t*>(mmap(nullptr, kMany * kHeldFileBytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(many, MAP_FAILED);
  for (int round = 0; round < 2; ++round) {
    std::vector<MemoryRegistration> regions(kMany);
    for (uint64_t i = 0; i < kMany; ++i) {
      ASSERT_EQ(daemon_.Register(many + i * kHeldFileBytes, kHeldFileBytes, regions[i]), 0);
    }
    EXPECT_EQ(FindSegmentFiles().fds, kMostHeldFiles);
    for (MemoryRegistration& region : regions) ASSERT_EQ(daemon_.Deregister(region), 0);
    EXPECT_EQ(FindSegmentFiles().fds, 0u);
  }
  munmap(many, kMany * kHeldFileBytes);
}

// The program may close any fd, and another file may get its number.
TEST_F(ChunksTest, AClosedFileDoesNoHarm) {
  Touch();
  Register();
  for (int fd = 3; fd < 100; ++fd) {
    close(fd);
    ASSERT_GE(memfd_create("other", 0), 0);
  }
  Deregister();
  for (const uint64_t place : kPlaces) EXPECT_EQ(pages_[place], 't') << place;
  EXPECT_EQ(pages_[kBytes / 2], 0);
  EXPECT_EQ(PageKind(pages_), "private");
}

// A writer is held back from the chunk that is copied, and not from those behind it.
TEST(FilePagesTest, AHoleThatGetsAPageBetweenTwoCallsIsCopied) {
  const int file = memfd_create("file", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 3 * kChunkBytes), 0);
  const auto map = [](int fd, int flags) {
    return static_cast<uint8_t*>(
        mmap(nullptr, 3 * kChunkBytes, PROT_READ | PROT_WRITE, flags, fd, 0));
  };
  uint8_t* const mapped = map(file, MAP_SHARED);
  uint8_t* const copy = map(-1, MAP_PRIVATE | MAP_ANONYMOUS);
  FilePages pages(file);
  const auto copy_chunk = [&](uint64_t chunk) {
    const uint64_t from = chunk * kChunkBytes;
    pages.Copy(from, reinterpret_cast<uint64_t>(mapped) + from, kChunkBytes,
               reinterpret_cast<uint64_t>(copy) + from);
  };
  mapped[5 * kPageBytes] = 'a';
  copy_chunk(0);  // There is no page behind it.
  mapped[kChunkBytes + 7 * kPageBytes] = 'b';
  mapped[2 * kChunkBytes + 9 * kPageBytes] = 'd';
  copy_chunk(1);  // The next page lies in the next chunk.
  mapped[2 * kChunkBytes] = 'c';
  copy_chunk(2);
  EXPECT_EQ(copy[5 * kPageBytes], 'a');
  EXPECT_EQ(copy[kChunkBytes + 7 * kPageBytes], 'b');
  EXPECT_EQ(copy[2 * kChunkBytes], 'c');
  EXPECT_EQ(copy[2 * kChunkBytes + 9 * kPageBytes], 'd');
  munmap(mapped, 3 * kChunkBytes);
  munmap(copy, 3 * kChunkBytes);
  close(file);
}

TEST_F(ChunksTest, NoWriteIsLostInAnyOfThem) {
  constexpr uint64_t kStep = 61 * kPageBytes;
  std::atomic<bool> stop = false;
  std::vector<uint64_t> counts(kBytes / kStep);
  const auto word = [this](uint64_t index) -> volatile uint64_t& {
    return *reinterpret_cast<uint64_t*>(pages_ + index * kStep);
  };
  std::thread writer([&] {
    for (uint64_t turn = 0; !stop; ++turn) {
      const uint64_t index = turn * 7 % counts.size();
      word(index) = word(index) + 1;
      ++counts[index];
    }
  });
  for (int round = 0; round < 10; ++round) {
    ASSERT_EQ(daemon_.Register(pages_, kBytes, mr_), 0);
    ASSERT_EQ(daemon_.Deregister(mr_), 0);
  }
  stop = true;
  writer.join();
  for (uint64_t index = 0; index < counts.size(); ++index) {
    ASSERT_EQ(word(index), counts[index]) << index;
  }
}

}  // namespace
}  // namespace uroce::memory
