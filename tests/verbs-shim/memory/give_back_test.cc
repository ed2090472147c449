// SPDX-License-Identifier: Apache-2.0
// Memory that was registered is ordinary memory again, by all that a program can see of it.
#include "verbs-shim/memory/remap.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bitset>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/verbs-shim/memory/fake_daemon.h"
#include "verbs-shim/memory/memory.h"

namespace uroce::memory {
namespace {

constexpr size_t kPages = 64;
constexpr size_t kBytes = kPages * kPageBytes;

/// The mappings that meet a range, each as "pages permissions flags".
std::string MappingsOf(const void* start, size_t bytes) {
  const auto from = reinterpret_cast<uint64_t>(start);
  std::ifstream smaps("/proc/self/smaps");
  std::ostringstream text;
  bool is_ours = false;
  for (std::string line; std::getline(smaps, line);) {
    uint64_t low, high;
    char permissions[5];
    if (sscanf(line.c_str(), "%lx-%lx %4s", &low, &high, permissions) == 3) {
      is_ours = low < from + bytes && from < high;
      if (is_ours) text << (high - low) / kPageBytes << ' ' << permissions << ' ';
    } else if (is_ours && line.starts_with("VmFlags")) {
      text << line.substr(9) << '\n';
    }
  }
  return text.str();
}

class GiveBackTest : public testing::Test {
 protected:
  void SetUp() override {
    SetPolicy(MrPolicy::kAutomatic);
    if (!ProbeFaultSupport(-1).kernel_mode) GTEST_SKIP() << "no kernel faults without root";
    auto* area = static_cast<uint8_t*>(
        mmap(nullptr, kBytes + 2 * kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    pages_ = area + kPageBytes;
    ASSERT_EQ(mprotect(pages_, kBytes, PROT_READ | PROT_WRITE), 0);
    memset(pages_, 'a', kBytes);
  }
  void TearDown() override {
    if (pages_ == nullptr) return;
    for (size_t page = 0; page < kPages; ++page) {
      if (!gone_[page]) munmap(pages_ + page * kPageBytes, kPageBytes);
    }
    munmap(pages_ - kPageBytes, kPageBytes);
    munmap(pages_ + kBytes, kPageBytes);
  }

  void Register(size_t first = 0, size_t count = kPages) {
    ASSERT_EQ(daemon_.Register(pages_ + first * kPageBytes, count * kPageBytes, mr_), 0);
    ASSERT_EQ(PageKind(pages_ + first * kPageBytes), "segment")
        << daemon_.Shape(mr_) << ", reason " << daemon_.region(mr_).segments[0].reason;
  }
  void Deregister() { ASSERT_EQ(daemon_.Deregister(mr_), 0); }
  /// The test unmaps or moves these pages. The library may map memory in their place, and keep it.
  void Leave(size_t first, size_t count) {
    for (size_t page = first; page < first + count; ++page) gone_.set(page);
  }

  int RawAdvise(int advice) {
    return syscall(SYS_madvise, pages_, kBytes, advice) == 0 ? 0 : errno;
  }
  /// A system call, because AddressSanitizer's mlock does nothing.
  int RawLock() { return syscall(SYS_mlock, pages_, kBytes) == 0 ? 0 : errno; }
  std::string Mappings() const { return MappingsOf(pages_, kBytes); }
  /// Of the first pages: "p" is private, "s" a segment's.
  std::string KindsOf(size_t count) const {
    const auto start = reinterpret_cast<uint64_t>(pages_);
    const AddressRange pages{start, start + count * kPageBytes};
    MappedArray<Vma> mappings;
    EXPECT_EQ(ReadMaps(pages, mappings), 0);
    std::string kinds(count, '-');
    for (const Vma& vma : mappings.span()) {
      const uint64_t first = std::max(vma.start, pages.start);
      const uint64_t end = std::min(vma.end, pages.end);
      const char kind = vma.kind == VmaKind::kSegment ? 's' : vma.shared ? 'o' : 'p';
      kinds.replace((first - start) / kPageBytes, (end - first) / kPageBytes,
                    (end - first) / kPageBytes, kind);
    }
    mappings.Release();
    return kinds;
  }
  bool AllAre(int value) const {
    return std::string(reinterpret_cast<char*>(pages_), kBytes) ==
           std::string(kBytes, static_cast<char>(value));
  }

  FakeDaemon& daemon_ = FakeDaemon::Make();
  MemoryRegistration mr_ = {};
  uint8_t* pages_ = nullptr;
  std::bitset<kPages> gone_;
};

TEST_F(GiveBackTest, ContentsStayAndPagesArePrivate) {
  Register();
  daemon_.Write(mr_, pages_ + 5000, "written");
  pages_[9000] = 'b';
  Deregister();
  EXPECT_EQ(PageKind(pages_), "private");
  EXPECT_EQ(memcmp(pages_ + 5000, "written", 7), 0);
  EXPECT_EQ(pages_[9000], 'b');
  EXPECT_EQ(pages_[kBytes - 1], 'a');
}

TEST_F(GiveBackTest, AdviceHasTheEffectThatItHasOnPrivateMemory) {
  Register();
  Deregister();
  EXPECT_EQ(RawAdvise(MADV_REMOVE), EINVAL);
  EXPECT_EQ(RawAdvise(MADV_WIPEONFORK), 0);
  EXPECT_EQ(RawAdvise(MADV_FREE), 0);
  memset(pages_, 'b', kBytes);
  EXPECT_TRUE(AllAre('b'));
  EXPECT_EQ(RawAdvise(MADV_DONTNEED), 0);
  EXPECT_TRUE(AllAre(0));
}

TEST_F(GiveBackTest, ThePartsOfAMappingBecomeOneAgain) {
  const std::string before = Mappings();
  for (int round = 0; round < 3; ++round) {
    Register(7, 5);
    EXPECT_NE(Mappings(), before);
    Deregister();
    EXPECT_EQ(Mappings(), before);
  }
  Leave(0, kPages);
  auto* moved = static_cast<uint8_t*>(mremap(pages_, kBytes, 2 * kBytes, MREMAP_MAYMOVE));
  ASSERT_NE(moved, MAP_FAILED);
  EXPECT_EQ(moved[kBytes - 1], 'a');
  munmap(moved, 2 * kBytes);
}

// The policy of mbind(2), as get_mempolicy(2) tells it.
TEST_F(GiveBackTest, ThePolicyOfItsNodesStays) {
  const auto bind = [this](int mode) {
    const unsigned long node = 1;
    return syscall(SYS_mbind, pages_, kBytes, mode, &node, 64UL, 0);
  };
  const auto policy_at = [](const uint8_t* page) {
    int mode = -1;
    syscall(SYS_get_mempolicy, &mode, nullptr, 0, page, MPOL_F_ADDR);
    return mode;
  };
  if (bind(MPOL_BIND) != 0) GTEST_SKIP() << "no NUMA in this kernel";
  Register(7, 5);
  for (const size_t page : {0, 7, 11, 12}) {
    EXPECT_EQ(policy_at(pages_ + page * kPageBytes), MPOL_BIND) << page;
  }
  Deregister();
  EXPECT_EQ(policy_at(pages_ + 7 * kPageBytes), MPOL_BIND);
  Register();
  ASSERT_EQ(bind(MPOL_INTERLEAVE), 0);
  EXPECT_EQ(policy_at(pages_), MPOL_INTERLEAVE);
  Deregister();
  EXPECT_EQ(PageKind(pages_), "private");
  EXPECT_EQ(policy_at(pages_ + kBytes - kPageBytes), MPOL_INTERLEAVE);
}

TEST_F(GiveBackTest, WhatWasSaidBeforeHoldsAfterwards) {
  ASSERT_EQ(RawLock(), 0);
  for (const int advice : {MADV_HUGEPAGE, MADV_DONTFORK, MADV_DONTDUMP, MADV_WIPEONFORK}) {
    ASSERT_EQ(RawAdvise(advice), 0);
  }
  const std::string before = Mappings();
  EXPECT_NE(before.find(" lo"), std::string::npos) << before;
  Register(7, 5);
  EXPECT_NE(MappingsOf(pages_ + 8 * kPageBytes, 1).find(" lo"), std::string::npos);
  Deregister();
  EXPECT_EQ(Mappings(), before);
}

TEST_F(GiveBackTest, WhatIsSaidMeanwhileHoldsAfterwards) {
  Register();
  const auto address = reinterpret_cast<uint64_t>(pages_);
  EXPECT_EQ(Advise(address, kBytes, MADV_DONTDUMP), 0);
  EXPECT_EQ(Advise(address, kBytes, MADV_WIPEONFORK), 0);
  EXPECT_EQ(Advise(address, kBytes, MADV_HUGEPAGE), 0);
  ASSERT_EQ(RawLock(), 0);
  ASSERT_EQ(mprotect(pages_, kBytes, PROT_READ), 0);
  Deregister();
  const std::string flags = Mappings();
  for (const char* flag : {"r--p", " dd", " wf", " hg", " lo"}) {
    EXPECT_NE(flags.find(flag), std::string::npos) << flag << " in " << flags;
  }
  EXPECT_TRUE(AllAre('a'));
}

TEST_F(GiveBackTest, AdviceWhileItIsRegistered) {
  Register(8, 8);
  const auto address = reinterpret_cast<uint64_t>(pages_);
  EXPECT_EQ(Advise(address, kBytes, MADV_REMOVE), -EINVAL);
  EXPECT_EQ(Advise(address, kBytes, MADV_FREE), 0);
  EXPECT_EQ(Advise(address + 1, kBytes, MADV_DONTNEED), -EINVAL);
  EXPECT_EQ(Advise(address, kBytes, MADV_POPULATE_WRITE), 0);
  memset(pages_, 'b', kBytes);
  EXPECT_EQ(Advise(address, 10 * kPageBytes, MADV_DONTNEED), 0);
  EXPECT_EQ(pages_[0], 0);
  EXPECT_EQ(pages_[9 * kPageBytes], 0);
  EXPECT_EQ(pages_[10 * kPageBytes], 'b');
  EXPECT_EQ(daemon_.Read(mr_, pages_ + 9 * kPageBytes, 1), std::string(1, '\0'));
  daemon_.Write(mr_, pages_ + 9 * kPageBytes, "w");
  EXPECT_EQ(pages_[9 * kPageBytes], 'w') << "the region reaches the new pages";
  Leave(12, 1);
  munmap(pages_ + 12 * kPageBytes, kPageBytes);
  EXPECT_EQ(Advise(address, kBytes, MADV_DONTNEED), -ENOMEM) << "of a gap, and the rest is done";
  Deregister();
  EXPECT_EQ(pages_[11 * kPageBytes], 0);
  EXPECT_EQ(pages_[kBytes - 1], 0);
}

/// The daemon has made the files of segments immutable: the kernel lets no program free pages.
class ImmutableSegmentsTest : public GiveBackTest {
 protected:
  void SetUp() override {
    GiveBackTest::SetUp();
    if (IsSkipped()) return;
    daemon_.keeps_pages = true;
    Register(0, 1);
    const bool is_refused = RawAdvise(MADV_REMOVE) == EPERM;
    Deregister();
    if (!is_refused) GTEST_SKIP() << "this kernel makes no file in memory immutable";
  }
};

TEST_F(ImmutableSegmentsTest, DroppedPagesReadAsZeros) {
  Register(8, 8);
  const auto address = reinterpret_cast<uint64_t>(pages_);
  ASSERT_EQ(mprotect(pages_ + 9 * kPageBytes, kPageBytes, PROT_READ), 0);
  ASSERT_EQ(mprotect(pages_ + 10 * kPageBytes, kPageBytes, PROT_NONE), 0);
  EXPECT_EQ(Advise(address, 12 * kPageBytes, MADV_DONTNEED), 0);
  ASSERT_EQ(mprotect(pages_ + 10 * kPageBytes, kPageBytes, PROT_READ), 0);
  EXPECT_EQ(std::count(pages_, pages_ + kBytes, 0), 12 * kPageBytes);
  EXPECT_EQ(daemon_.Read(mr_, pages_ + 9 * kPageBytes, 1), std::string(1, '\0'));
  daemon_.Write(mr_, pages_ + 9 * kPageBytes, "w");
  EXPECT_EQ(pages_[9 * kPageBytes], 'w') << "the region reaches the same pages";
  Deregister();
  EXPECT_EQ(std::count(pages_, pages_ + kBytes, 'a'), 52 * kPageBytes);
  EXPECT_EQ(KindsOf(kPages), std::string(kPages, 'p'));
}

TEST_F(ImmutableSegmentsTest, DroppingMakesNoPages) {
  constexpr size_t kLong = 2 * kPieceBytes;
  auto* const area = static_cast<uint8_t*>(mmap(
      nullptr, kLong, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(area, MAP_FAILED);
  ASSERT_EQ(madvise(area, kLong, MADV_NOHUGEPAGE), 0);
  area[kLong / 4] = 'b';
  ASSERT_EQ(daemon_.Register(area, kLong, mr_), 0);
  EXPECT_EQ(Advise(reinterpret_cast<uint64_t>(area), kLong, MADV_DONTNEED), 0);
  EXPECT_EQ(daemon_.PagesInSegments(), 1u);
  EXPECT_EQ(area[kLong / 4], 0);
  Deregister();
  munmap(area, kLong);
}

TEST_F(ImmutableSegmentsTest, PagesThatAreGivenBackStayInTheFileUntilItsSegmentEnds) {
  MemoryRegistration small = {};
  Register();
  ASSERT_EQ(daemon_.Register(pages_ + 8 * kPageBytes, kPageBytes, small), 0);
  Deregister();
  EXPECT_EQ(daemon_.PagesInSegments(), kPages);
  EXPECT_TRUE(AllAre('a'));
  pages_[0] = 'b';
  Register();
  EXPECT_EQ(daemon_.Read(mr_, pages_, 1), "b") << "which a new segment has";
  ASSERT_EQ(daemon_.Deregister(small), 0);
  Deregister();
  EXPECT_EQ(pages_[0], 'b');
  EXPECT_TRUE(FindSegmentFiles().inodes.empty());
}

TEST_F(GiveBackTest, APageStaysSharedUntilTheLastRegionInItIsGone) {
  const std::string before = Mappings();
  MemoryRegistration again = {};
  Register();
  ASSERT_EQ(daemon_.Register(pages_ + 2 * kPageBytes, kPageBytes, again), 0);
  Deregister();
  EXPECT_EQ(KindsOf(5), "ppspp");
  EXPECT_TRUE(AllAre('a'));
  daemon_.Write(again, pages_ + 9000, "live");
  EXPECT_EQ(memcmp(pages_ + 9000, "live", 4), 0);
  ASSERT_EQ(daemon_.Deregister(again), 0);
  EXPECT_EQ(memcmp(pages_ + 9000, "live", 4), 0);
  EXPECT_EQ(Mappings(), before);
  EXPECT_EQ(daemon_.segment_count(), 0u);
}

TEST_F(GiveBackTest, NeighboursShareOnlyThePageBetweenThem) {
  MemoryRegistration right = {};
  ASSERT_EQ(daemon_.Register(pages_, 3 * kPageBytes + 100, mr_), 0);
  ASSERT_EQ(daemon_.Register(pages_ + 3 * kPageBytes + 100, 3 * kPageBytes, right), 0);
  Deregister();
  EXPECT_EQ(KindsOf(8), "pppssssp");
  ASSERT_EQ(syscall(SYS_madvise, pages_, 3 * kPageBytes, MADV_DONTNEED), 0);
  EXPECT_EQ(std::count(pages_, pages_ + 3 * kPageBytes, 0), 3 * kPageBytes);
  EXPECT_EQ(pages_[3 * kPageBytes], 'a');
  daemon_.Write(right, pages_ + 3 * kPageBytes + 100, "live");
  EXPECT_EQ(memcmp(pages_ + 3 * kPageBytes + 100, "live", 4), 0);
  ASSERT_EQ(daemon_.Deregister(right), 0);
  EXPECT_EQ(KindsOf(8), "pppppppp");
  EXPECT_EQ(memcmp(pages_ + 3 * kPageBytes + 100, "live", 4), 0);
}

TEST_F(GiveBackTest, PagesThatAreGivenBackTakeNoMemoryInTheSegment) {
  MemoryRegistration small = {};
  Register();
  ASSERT_EQ(daemon_.Register(pages_ + 8 * kPageBytes, kPageBytes, small), 0);
  const uint8_t* view = daemon_.ViewOf(small) - 8 * kPageBytes;
  ASSERT_EQ(std::count(view, view + kBytes, 'a'), kBytes);
  ASSERT_EQ(mprotect(pages_ + 20 * kPageBytes, kPageBytes, PROT_NONE), 0);
  Deregister();
  EXPECT_EQ(std::count(view, view + kBytes, 'a'), kPageBytes);
  EXPECT_EQ(view[8 * kPageBytes], 'a');
  ASSERT_EQ(mprotect(pages_ + 20 * kPageBytes, kPageBytes, PROT_READ), 0);
  EXPECT_TRUE(AllAre('a'));
  ASSERT_EQ(daemon_.Deregister(small), 0);
}

TEST_F(GiveBackTest, PagesThatAreMappedTwiceAreGivenBackTwice) {
  MemoryRegistration small = {};
  Register();
  ASSERT_EQ(daemon_.Register(pages_ + 8 * kPageBytes, kPageBytes, small), 0);
  auto* second = static_cast<uint8_t*>(mremap(pages_, 0, kBytes, MREMAP_MAYMOVE));
  ASSERT_NE(second, MAP_FAILED);
  Leave(1, 1);
  munmap(pages_ + kPageBytes, kPageBytes);  // So that the pages are looked for everywhere.
  Deregister();
  EXPECT_EQ(PageKind(pages_), "private");
  EXPECT_EQ(PageKind(second), "private");
  EXPECT_EQ(std::count(second, second + kBytes, 'a'), kBytes);
  EXPECT_EQ(pages_[0], 'a');
  EXPECT_EQ(pages_[kBytes - 1], 'a');
  ASSERT_EQ(daemon_.Deregister(small), 0);
  munmap(second, kBytes);
}

TEST_F(GiveBackTest, PagesThatHaveMovedLeaveOthersOfTheirSegment) {
  MemoryRegistration small = {};
  Register();
  ASSERT_EQ(daemon_.Register(pages_ + 8 * kPageBytes, 2 * kPageBytes, small), 0);
  Leave(0, 9);
  auto* moved = static_cast<uint8_t*>(mremap(pages_, 9 * kPageBytes, kBytes, MREMAP_MAYMOVE));
  ASSERT_NE(moved, MAP_FAILED);
  Deregister();
  EXPECT_EQ(PageKind(moved + 7 * kPageBytes), "private");
  EXPECT_EQ(PageKind(moved + 8 * kPageBytes), "segment");
  EXPECT_EQ(PageKind(pages_ + 9 * kPageBytes), "segment");
  EXPECT_EQ(PageKind(pages_ + 10 * kPageBytes), "private");
  daemon_.Write(small, pages_ + 8 * kPageBytes, "moved");
  EXPECT_EQ(memcmp(moved + 8 * kPageBytes, "moved", 5), 0);
  ASSERT_EQ(daemon_.Deregister(small), 0);
  EXPECT_EQ(PageKind(moved + 8 * kPageBytes), "private");
  EXPECT_EQ(PageKind(moved + kBytes - 1), "private") << "by which it grew";
  EXPECT_EQ(memcmp(moved + 8 * kPageBytes, "moved", 5), 0);
  EXPECT_EQ(std::count(moved, moved + 8 * kPageBytes, 'a'), 8 * kPageBytes);
  munmap(moved, kBytes);
}

/// Regions of whole and of partial pages, anywhere; and what each byte is to be.
class OverlappingRegionsTest : public GiveBackTest {
 protected:
  struct Region {
    size_t first, end;
    MemoryRegistration mr;
  };

  size_t Draw(size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random_); }

  void Add() {
    Region region{Draw(kBytes), 0, {}};
    region.end = region.first + 1 + Draw(std::min(kBytes - region.first, 20 * kPageBytes));
    ASSERT_EQ(daemon_.Register(pages_ + region.first, region.end - region.first, region.mr), 0);
    regions_.push_back(region);
  }
  void End() {
    const size_t which = Draw(regions_.size());
    ASSERT_EQ(daemon_.Deregister(regions_[which].mr), 0);
    regions_.erase(regions_.begin() + static_cast<ptrdiff_t>(which));
  }
  void WriteOf(Region& region) {
    const size_t at = region.first + Draw(region.end - region.first);
    const std::string bytes(std::min<size_t>(region.end - at, 5000), static_cast<char>(Draw(256)));
    daemon_.Write(region.mr, pages_ + at, bytes);
    expected_.replace(at, bytes.size(), bytes);
  }
  void Drop() {
    const size_t page = Draw(kPages);
    if (KindOfPage(page) != 'p') return;
    ASSERT_EQ(syscall(SYS_madvise, pages_ + page * kPageBytes, kPageBytes, MADV_DONTNEED), 0);
    expected_.replace(page * kPageBytes, kPageBytes, kPageBytes, '\0');
  }
  /// What a page is to be: a segment's where a region has a byte of it.
  char KindOfPage(size_t page) const {
    const bool is_used =
        std::any_of(regions_.begin(), regions_.end(), [page](const Region& region) {
          return region.first / kPageBytes <= page && page <= (region.end - 1) / kPageBytes;
        });
    return is_used ? 's' : 'p';
  }
  void Check() {
    std::string kinds;
    for (size_t page = 0; page < kPages; ++page) kinds += KindOfPage(page);
    ASSERT_EQ(KindsOf(kPages), kinds);
    ASSERT_EQ(memcmp(pages_, expected_.data(), kBytes), 0);
    for (const Region& region : regions_) {
      ASSERT_EQ(daemon_.Read(region.mr, pages_ + region.first, region.end - region.first),
                expected_.substr(region.first, region.end - region.first));
    }
  }

  std::mt19937 random_{1};
  std::string expected_ = std::string(kBytes, 'a');
  std::vector<Region> regions_;
};

TEST_F(OverlappingRegionsTest, EachPageIsSharedAsLongAsARegionHasSomeOfIt) {
  const std::string before = Mappings();
  for (int step = 0; step < 600; ++step) {
    const size_t what = Draw(4);
    if (what == 0 && regions_.size() < 12) Add();
    if (what == 1 && !regions_.empty()) End();
    if (what == 2 && !regions_.empty()) WriteOf(regions_[Draw(regions_.size())]);
    if (what == 3) Drop();
    ASSERT_NO_FATAL_FAILURE(Check()) << "step " << step;
  }
  while (!regions_.empty()) End();
  ASSERT_NO_FATAL_FAILURE(Check());
  EXPECT_EQ(Mappings(), before);
  EXPECT_EQ(daemon_.segment_count(), 0u);
}

TEST_F(GiveBackTest, PagesThatHaveMovedOrGone) {
  Register();
  Leave(4, 4);
  munmap(pages_ + 4 * kPageBytes, 4 * kPageBytes);
  ASSERT_EQ(mprotect(pages_ + 12 * kPageBytes, kPageBytes, PROT_NONE), 0);
  auto* place = static_cast<uint8_t*>(
      mmap(nullptr, 2 * kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  Leave(32, 32);
  ASSERT_EQ(mremap(pages_ + 32 * kPageBytes, 32 * kPageBytes, 48 * kPageBytes,
                   MREMAP_MAYMOVE | MREMAP_FIXED, place),
            place);
  place[47 * kPageBytes] = 'g';
  Deregister();
  EXPECT_EQ(PageKind(pages_), "private");
  EXPECT_EQ(PageKind(place), "private");
  EXPECT_EQ(PageKind(place + 47 * kPageBytes), "private");
  ASSERT_EQ(mprotect(pages_ + 12 * kPageBytes, kPageBytes, PROT_READ), 0);
  for (const size_t page : {0, 3, 8, 12, 13, 31}) EXPECT_EQ(pages_[page * kPageBytes], 'a') << page;
  for (const size_t page : {0, 31}) EXPECT_EQ(place[page * kPageBytes], 'a') << page;
  EXPECT_EQ(place[47 * kPageBytes], 'g');
  EXPECT_EQ(place[40 * kPageBytes], 0);
  munmap(place, 2 * kBytes);
}

// The kernel then refuses every new mapping, also of what is moved away from.
TEST_F(GiveBackTest, WithoutAddressSpaceNothingIsLost) {
  Register();
  Deregister();  // So that only the return itself needs some.
  Register(0, 8);
  Leave(0, 8);
  auto* grown =
      static_cast<uint8_t*>(mremap(pages_, 8 * kPageBytes, 10 * kPageBytes, MREMAP_MAYMOVE));
  ASSERT_NE(grown, MAP_FAILED);
  memset(grown + 8 * kPageBytes, 'g', 2 * kPageBytes);
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  const rlimit none{.rlim_cur = 1, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
  const int error = daemon_.Deregister(mr_);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  EXPECT_EQ(error, 0);
  EXPECT_EQ(PageKind(grown), "private");
  EXPECT_EQ(PageKind(grown + 9 * kPageBytes), "segment") << "which has nowhere to go";
  EXPECT_EQ(std::count(grown, grown + 8 * kPageBytes, 'a'), 8 * kPageBytes);
  EXPECT_EQ(std::count(grown + 8 * kPageBytes, grown + 10 * kPageBytes, 'g'), 2 * kPageBytes);
  ASSERT_EQ(daemon_.Register(grown, 10 * kPageBytes, mr_), 0);
  EXPECT_EQ(daemon_.Read(mr_, grown + 9 * kPageBytes, 1), "g");
  Deregister();
  EXPECT_EQ(PageKind(grown + 9 * kPageBytes), "private");
  munmap(grown, 10 * kPageBytes);
}

/// What a program without privilege sees, of which one thread waits in a system call: 0, or the
/// line of what is wrong.
int SeeWithoutPrivilege(uint8_t* pages) {
  if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return __LINE__;
  if (prctl(PR_SET_DUMPABLE, 1) != 0) return __LINE__;
  FakeDaemon& daemon = FakeDaemon::Make();
  if (ProbeFaultSupport(-1).kernel_mode) return 0;  // This process needs no privilege for it.
  MemoryRegistration all = {}, small = {};
  const auto address = reinterpret_cast<uint64_t>(pages);
  std::atomic<bool> stop = false;
  std::thread other([&stop] { stop.wait(false); });
  if (daemon.Register(pages, kBytes, all) != 0) return __LINE__;
  if (daemon.Register(pages + kPageBytes, kPageBytes, small) != 0) return __LINE__;
  if (daemon.Deregister(all) != 0 || PageKind(pages) != "segment") return __LINE__;
  if (std::count(pages, pages + kBytes, 'a') != kBytes) return __LINE__;
  if (Advise(address, kPageBytes, MADV_DONTNEED) != 0 || pages[0] != 0) return __LINE__;
  stop = true;
  stop.notify_all();
  other.join();
  if (daemon.Deregister(small) != 0 || PageKind(pages) != "private") return __LINE__;
  return pages[0] == 0 && std::count(pages, pages + kBytes, 'a') == kBytes - kPageBytes ? 0
                                                                                        : __LINE__;
}

TEST_F(GiveBackTest, WithoutPrivilegePagesComeBackWhenThereIsOneThread) {
  const pid_t child = fork();
  if (child == 0) _exit(SeeWithoutPrivilege(pages_) % 255);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "line " << WEXITSTATUS(status) << ", or that and 255";
}

TEST_F(GiveBackTest, UntouchedPagesTakeNoMemory) {
  ASSERT_EQ(RawAdvise(MADV_DONTNEED), 0);
  Register();
  Deregister();
  unsigned char resident[kPages];
  ASSERT_EQ(mincore(pages_, kBytes, resident), 0);
  EXPECT_EQ(std::count_if(resident, resident + kPages, [](int page) { return page & 1; }), 0);
}

// Each writer owns a word of every page; one of them writes by system calls.
TEST_F(GiveBackTest, NoWriteIsLost) {
  if (getenv("UROCE_USERFAULTFD") != nullptr) GTEST_SKIP() << "system calls get EFAULT";
  constexpr int kWriters = 3;
  memset(pages_, 0, kBytes);
  std::atomic<bool> stop = false;
  std::atomic<int> running = 0;
  std::vector<std::vector<uint64_t>> counts(kWriters, std::vector<uint64_t>(kPages));
  const auto word = [this](uint64_t page, int writer) {
    return reinterpret_cast<uint64_t*>(pages_ + page * kPageBytes) + writer;
  };
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  uint64_t failures = 0;
  const auto write_to = [&](int writer) {
    ++running;
    for (uint64_t turn = 0; !stop; ++turn) {
      const uint64_t page = turn * 7 % kPages;
      const uint64_t value = ++counts[static_cast<size_t>(writer)][page];
      if (writer != 0) {
        *const_cast<volatile uint64_t*>(word(page, writer)) = value;
      } else if (write(pipe_ends[1], &value, 8) != 8 ||
                 read(pipe_ends[0], word(page, writer), 8) != 8) {
        ++failures;
      }
    }
  };
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) writers.emplace_back(write_to, i);
  while (running < kWriters) std::this_thread::yield();
  for (int round = 0; round < 300; ++round) {
    Register(0, kPages - static_cast<size_t>(round) % 3);
    MemoryRegistration within = {};
    ASSERT_EQ(daemon_.Register(pages_ + round * 100, 5 * kPageBytes, within), 0);
    Deregister();
    ASSERT_EQ(daemon_.Deregister(within), 0);
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failures, 0u);
  for (uint64_t page = 0; page < kPages; ++page) {
    for (int i = 0; i < kWriters; ++i) {
      ASSERT_EQ(*word(page, i), counts[static_cast<size_t>(i)][page]) << page << ' ' << i;
    }
  }
  for (const int end : pipe_ends) close(end);
}

}  // namespace
}  // namespace uroce::memory
