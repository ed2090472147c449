// SPDX-License-Identifier: Apache-2.0
// Registration as a whole: what is mapped, what is copied, what happens on errors and repetition.
#include <linux/io_uring.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "tests/verbs-shim/memory/fake_daemon.h"
#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/pins.h"

namespace uroce::memory {
namespace {

constexpr uint32_t kLocalWrite = 1, kRemoteWrite = 2, kRemoteRead = 4, kRemoteAtomic = 8;

class RegistrationTest : public testing::Test {
 protected:
  void SetUp() override { SetPolicy(MrPolicy::kAutomatic); }

  /// Anonymous pages with guards on both sides, so that they are one mapping by themselves.
  uint8_t* MapPages(size_t pages, int protection = PROT_READ | PROT_WRITE) {
    auto* area = static_cast<uint8_t*>(
        mmap(nullptr, (pages + 2) * kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(mprotect(area + kPageBytes, pages * kPageBytes, protection), 0);
    return area + kPageBytes;
  }

  /// Memory in the brk heap that starts and ends inside pages.
  uint8_t* GrowHeap(size_t bytes) {
    auto* block = static_cast<uint8_t*>(sbrk(static_cast<intptr_t>(bytes + 3 * kPageBytes)));
    return block + kPageBytes + 16 - reinterpret_cast<uint64_t>(block) % kPageBytes;
  }

  FakeDaemon& daemon_ = FakeDaemon::Make();
  MemoryRegistration mr_ = {};
};

TEST_F(RegistrationTest, WholeAnonymousPagesAreMapped) {
  uint8_t* pages = MapPages(4);
  memset(pages, 'a', 4 * kPageBytes);
  ASSERT_EQ(daemon_.Register(pages, 4 * kPageBytes, mr_), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "m16384");
  EXPECT_EQ(PageKind(pages), "segment");
  EXPECT_EQ(daemon_.Read(mr_, pages, 4 * kPageBytes), std::string(4 * kPageBytes, 'a'));
  pages[5000] = 'b';
  EXPECT_EQ(daemon_.Read(mr_, pages + 5000, 1), "b");
  daemon_.Write(mr_, pages + 9000, "hello");
  EXPECT_EQ(memcmp(pages + 9000, "hello", 5), 0);
}

TEST_F(RegistrationTest, UntouchedPagesReadAsZero) {
  uint8_t* pages = MapPages(600);
  ASSERT_EQ(daemon_.Register(pages, 600 * kPageBytes, mr_), 0);
  EXPECT_EQ(daemon_.Read(mr_, pages, 600 * kPageBytes), std::string(600 * kPageBytes, '\0'));
  EXPECT_EQ(pages[599 * kPageBytes], 0);
}

TEST_F(RegistrationTest, HugePagesKeepTheirContents) {
  constexpr size_t kHuge = 2 << 20;
  auto* area = static_cast<uint8_t*>(
      mmap(nullptr, 4 * kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  madvise(area, 4 * kHuge, MADV_HUGEPAGE);
  for (size_t i = 0; i < 4 * kHuge; ++i) area[i] = static_cast<uint8_t>(i * 31 >> 7);
  std::string before(reinterpret_cast<char*>(area), 4 * kHuge);
  // From the middle of one huge page into the middle of another.
  ASSERT_EQ(daemon_.Register(area + kHuge / 2, 2 * kHuge, mr_), 0);
  EXPECT_EQ(daemon_.Read(mr_, area + kHuge / 2, 2 * kHuge), before.substr(kHuge / 2, 2 * kHuge));
  EXPECT_EQ(memcmp(area, before.data(), before.size()), 0);
}

TEST_F(RegistrationTest, HeapPagesCoveredInPartStayPrivate) {
  uint8_t* block = GrowHeap(40000);
  memset(block, 'h', 40000);
  ASSERT_EQ(daemon_.Register(block + 8, 30000, mr_), 0);
  EXPECT_EQ(PageKind(block), "private");
  EXPECT_EQ(PageKind(block + 8192), "segment");
  EXPECT_EQ(PageKind(block + 8 + 30000 - 1), "private");
  EXPECT_EQ(daemon_.Shape(mr_)[0], 'c');
  EXPECT_EQ(daemon_.Read(mr_, block + 8, 30000), std::string(30000, 'h'));
  daemon_.Write(mr_, block + 8, std::string(30000, 'w'));
  EXPECT_EQ(std::string(reinterpret_cast<char*>(block) + 8, 30000), std::string(30000, 'w'));
  EXPECT_EQ(block[7], 'h');
  EXPECT_EQ(block[30008], 'h');
}

#ifndef __SANITIZE_ADDRESS__  // Its malloc has no arenas.
TEST_F(RegistrationTest, PartsOfAnArenaHeapPageAreCopied) {
  std::thread([this] {
    auto* block = static_cast<uint8_t*>(malloc(40000));  // Another thread's arena.
    memset(block, 'h', 40000);
    ASSERT_EQ(daemon_.Register(block, 40000, mr_), 0);
    EXPECT_EQ(PageKind(block), "private");
    EXPECT_EQ(PageKind(block + 8192), "segment");
    ASSERT_EQ(daemon_.Deregister(mr_), 0);
    free(block);
  }).join();
}
#endif

// docs/protocol/verbs-semantics.md, section 5: ON_DEMAND. What lies there is found by each access.
TEST_F(RegistrationTest, OnDemandMemoryNeedNotBeThere) {
  constexpr uint32_t kOnDemand = 64;
  uint8_t* pages = MapPages(2, PROT_NONE);
  ASSERT_EQ(daemon_.Register(pages, 2 * kPageBytes, mr_, 7), EFAULT);
  ASSERT_EQ(daemon_.Register(pages, 2 * kPageBytes, mr_, 7 | kOnDemand), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "c8192");
  ASSERT_EQ(mprotect(pages, 2 * kPageBytes, PROT_READ | PROT_WRITE), 0);
  daemon_.Write(mr_, pages + 100, "came later");
  EXPECT_EQ(memcmp(pages + 100, "came later", 10), 0);
  EXPECT_EQ(PageKind(pages), "private");
  MemoryRegistration whole = {};
  EXPECT_EQ(daemon_.Register(nullptr, kWholeAddressSpace, whole, 7 | kOnDemand), 0);
}

TEST_F(RegistrationTest, AReregistrationKeepsHandleAndKeysAndLetsOldMemoryGo) {
  uint8_t* first = MapPages(2);
  uint8_t* second = MapPages(3);
  ASSERT_EQ(daemon_.Register(first, 2 * kPageBytes, mr_), 0);
  const MemoryRegistration before = mr_;
  const auto address = reinterpret_cast<uint64_t>(second);
  const MemoryRequest change = {
      .pd = 1, .access = kLocalWrite, .addr = address, .length = 3 * kPageBytes, .iova = address};
  ASSERT_EQ(ReregisterMemory(daemon_.calls(), change, mr_), 0);
  EXPECT_EQ(mr_.handle, before.handle);
  EXPECT_EQ(mr_.rkey, before.rkey);
  EXPECT_EQ(daemon_.Shape(mr_), "m12288");
  EXPECT_EQ(daemon_.segment_count(), 1u) << "that of the old memory is gone";
  daemon_.region_error = EPERM;
  EXPECT_EQ(ReregisterMemory(daemon_.calls(), change, mr_), EPERM);
  daemon_.region_error = 0;
  EXPECT_EQ(daemon_.Shape(mr_), "m12288") << "nothing has changed";
  EXPECT_EQ(daemon_.Deregister(mr_), 0);
  EXPECT_EQ(daemon_.segment_count(), 0u);
}

TEST_F(RegistrationTest, StacksAreCopied) {
  alignas(4096) uint8_t buffer[3 * 4096] = {1, 2, 3};
  ASSERT_EQ(daemon_.Register(buffer, sizeof(buffer), mr_), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "c12288");
  daemon_.Write(mr_, buffer + 4096, "stack");
  EXPECT_EQ(memcmp(buffer + 4096, "stack", 5), 0);
}

TEST_F(RegistrationTest, StacksOfOtherThreadsAreCopied) {
  std::thread([this] {
    alignas(4096) uint8_t buffer[3 * 4096] = {1, 2, 3};
    std::thread([&] { ASSERT_EQ(daemon_.Register(buffer, sizeof(buffer), mr_), 0); }).join();
    EXPECT_EQ(daemon_.Shape(mr_), "c12288");
  }).join();
}

alignas(4096) thread_local uint8_t thread_buffer[2 * 4096];

TEST_F(RegistrationTest, ThreadLocalStorageIsCopied) {
  ASSERT_EQ(daemon_.Register(thread_buffer, sizeof(thread_buffer), mr_), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "c8192");
  std::thread([this] {
    ASSERT_EQ(daemon_.Register(thread_buffer, sizeof(thread_buffer), mr_), 0);
    EXPECT_EQ(daemon_.Shape(mr_), "c8192");
  }).join();
}

alignas(4096) uint8_t data_buffer[2 * 4096] = {1};
alignas(4096) uint8_t bss_buffer[64 * 4096];
alignas(4096) const uint8_t constant_buffer[2 * 4096] = {1};

TEST_F(RegistrationTest, DataIsCopiedBssIsMapped) {
  ASSERT_EQ(daemon_.Register(data_buffer, sizeof(data_buffer), mr_), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "c8192");
  daemon_.Write(mr_, data_buffer, "data");
  EXPECT_EQ(memcmp(data_buffer, "data", 4), 0);
  ASSERT_EQ(daemon_.Register(bss_buffer + 4096, 32 * 4096, mr_), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "m131072");
}

/// A memfd of two pages and a shared mapping of it.
struct SharedPages {
  explicit SharedPages(int protection = PROT_READ | PROT_WRITE) : fd(memfd_create("own", 0)) {
    EXPECT_EQ(ftruncate(fd, 2 * kPageBytes), 0);
    address = static_cast<char*>(mmap(nullptr, 2 * kPageBytes, protection, MAP_SHARED, fd, 0));
  }
  ~SharedPages() {
    munmap(address, 2 * kPageBytes);
    if (fd >= 0) close(fd);
  }
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;

  int fd;
  char* address;
};

TEST_F(RegistrationTest, SharedMemoryIsLentAndStaysItself) {
  SharedPages pages;
  ASSERT_EQ(daemon_.Register(pages.address + 16, 8000, mr_), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "s8000");
  EXPECT_EQ(PageKind(pages.address), "shared");
  pages.address[5000] = 'b';
  EXPECT_EQ(daemon_.Read(mr_, pages.address + 5000, 1), "b");
  daemon_.Write(mr_, pages.address + 4090, "hello");
  EXPECT_EQ(memcmp(pages.address + 4090, "hello", 5), 0);
  MemoryRegistration again = {};
  ASSERT_EQ(daemon_.Register(pages.address, 8192, again), 0);
  EXPECT_EQ(daemon_.files_lent(), 1u);
  EXPECT_EQ(daemon_.Deregister(mr_), 0);
  EXPECT_EQ(daemon_.segment_count(), 1u);
  EXPECT_EQ(daemon_.Deregister(again), 0);
  EXPECT_EQ(daemon_.segment_count(), 0u);
}

TEST_F(RegistrationTest, SharedMemoryThatIsReadIsLentForReading) {
  SharedPages pages(PROT_READ);
  EXPECT_EQ(daemon_.Register(pages.address, 8192, mr_, kLocalWrite), EFAULT);
  ASSERT_EQ(daemon_.Register(pages.address, 8192, mr_, kRemoteRead), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "s8192");
  ASSERT_EQ(mprotect(pages.address, 8192, PROT_READ | PROT_WRITE), 0);
  MemoryRegistration writable = {};
  ASSERT_EQ(daemon_.Register(pages.address, 8192, writable, kLocalWrite), 0);
  EXPECT_EQ(daemon_.files_lent(), 2u) << "the first mapping is for reading";
  daemon_.Write(writable, pages.address, "w");
  EXPECT_EQ(daemon_.Read(mr_, pages.address, 1), "w");
}

TEST_F(RegistrationTest, SharedMemoryIsCopiedWhereTheDaemonCannotTakeIt) {
  SharedPages pages;
  daemon_.share_error = EINVAL;
  ASSERT_EQ(daemon_.Register(pages.address, 8192, mr_), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "c8192");
  EXPECT_EQ(daemon_.region(mr_).segments[0].reason, UROCE_WHY_NOT_REACHABLE);
  daemon_.Write(mr_, pages.address, "copied");
  EXPECT_EQ(memcmp(pages.address, "copied", 6), 0);
}

TEST_F(RegistrationTest, SharedMemoryWhosePagesCanBeFreedIsCopiedIfTheDaemonWantsIt) {
  SharedPages pages;
  daemon_.share_error = UROCE_LEND_FREEABLE;
  ASSERT_EQ(daemon_.Register(pages.address, 8192, mr_), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "c8192");
  EXPECT_EQ(daemon_.region(mr_).segments[0].reason, UROCE_WHY_NOT_SEALED);
}

TEST_F(RegistrationTest, SharedFilesOnDisksAreCopied) {
  char path[] = "/var/tmp/uroce-registration-XXXXXX";
  const int fd = mkstemp(path);
  unlink(path);
  ASSERT_EQ(ftruncate(fd, 8192), 0);
  struct statfs file_system = {};
  ASSERT_EQ(fstatfs(fd, &file_system), 0);
  if (file_system.f_type == TMPFS_MAGIC) GTEST_SKIP() << "/var/tmp is in memory here";
  void* pages = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_EQ(daemon_.Register(pages, 8192, mr_), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "c8192");
  EXPECT_EQ(daemon_.region(mr_).segments[0].reason, UROCE_WHY_FILE_SYSTEM);
  munmap(pages, 8192);
  close(fd);
}

// The kernel pins with write permission if any flag needs it (ib_umem_get).
TEST_F(RegistrationTest, ReadOnlyMemoryAllowsReadingOnly) {
  auto* constant = const_cast<uint8_t*>(constant_buffer);
  EXPECT_EQ(daemon_.Register(constant, 8192, mr_, kLocalWrite), EFAULT);
  ASSERT_EQ(daemon_.Register(constant, 8192, mr_, kRemoteRead), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "c8192");
  EXPECT_EQ(daemon_.Read(mr_, constant, 1), "\x01");
}

// get_user_pages gives no page behind the end of a file.
TEST_F(RegistrationTest, PagesBehindTheEndOfTheirFileAreRefused) {
  const int fd = memfd_create("short", 0);
  ASSERT_EQ(ftruncate(fd, 5000), 0);
  void* pages = mmap(nullptr, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  daemon_.share_error = EINVAL;
  EXPECT_EQ(daemon_.Register(pages, 12288, mr_), EFAULT);
  EXPECT_EQ(daemon_.Register(pages, 8192, mr_), 0);
  munmap(pages, 12288);
  close(fd);
}

TEST_F(RegistrationTest, ARegionOfNoBytesMayLieAnywhere) {
  EXPECT_EQ(daemon_.Register(reinterpret_cast<void*>(kPageBytes), 0, mr_), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "");
}

TEST_F(RegistrationTest, MissingMemoryIsRefused) {
  uint8_t* pages = MapPages(3);
  EXPECT_EQ(daemon_.Register(pages - kPageBytes, 2 * kPageBytes, mr_), EFAULT);
  EXPECT_EQ(daemon_.Register(pages, 4 * kPageBytes, mr_), EFAULT);
  munmap(pages + kPageBytes, kPageBytes);
  EXPECT_EQ(daemon_.Register(pages, 3 * kPageBytes, mr_), EFAULT);
  EXPECT_EQ(daemon_.segments_made(), 0u);
  EXPECT_EQ(PageKind(pages), "private");
}

TEST_F(RegistrationTest, ArgumentsAreCheckedFirst) {
  uint8_t* pages = MapPages(2);
  EXPECT_EQ(daemon_.Register(pages, UINT64_MAX, mr_), EINVAL);
  EXPECT_EQ(daemon_.Register(reinterpret_cast<void*>(UINT64_MAX - 100), 50, mr_), EINVAL);
  EXPECT_EQ(daemon_.Register(pages, 8192, mr_, kRemoteWrite), EINVAL);
  EXPECT_EQ(daemon_.Register(pages, 8192, mr_, kRemoteAtomic | kRemoteRead), EINVAL);
  EXPECT_EQ(daemon_.Register(pages, 8192, mr_, 1 << 12), EINVAL);
  EXPECT_EQ(daemon_.Register(pages, 8192, mr_, 1 << 8), EOPNOTSUPP) << "FLUSH_GLOBAL";
  EXPECT_EQ(daemon_.Register(pages, 8192, mr_, kLocalWrite | 1 << 25), 0);
  EXPECT_EQ(daemon_.region(mr_).request.access, kLocalWrite);
}

TEST_F(RegistrationTest, IovaMustLieAtTheSamePlaceInItsPage) {
  uint8_t* pages = MapPages(2);
  MemoryRequest request{.pd = 1,
                        .access = kLocalWrite,
                        .addr = reinterpret_cast<uint64_t>(pages) + 100,
                        .length = 4096,
                        .iova = 0x7000};
  EXPECT_EQ(RegisterMemory(daemon_.calls(), request, mr_), EINVAL);
  request.iova = 0x7000 + 100;
  ASSERT_EQ(RegisterMemory(daemon_.calls(), request, mr_), 0);
  EXPECT_EQ(daemon_.region(mr_).request.iova, 0x7064u);
  request.access |= 32;  // ZERO_BASED
  ASSERT_EQ(RegisterMemory(daemon_.calls(), request, mr_), 0);
  EXPECT_EQ(daemon_.region(mr_).request.iova, 0u);
}

TEST_F(RegistrationTest, SegmentsAreSharedByRepeatedNestedAndOverlappingRegions) {
  uint8_t* pages = MapPages(16);
  MemoryRegistration whole = {}, again = {}, nested = {}, overlapping = {};
  ASSERT_EQ(daemon_.Register(pages, 8 * kPageBytes, whole), 0);
  ASSERT_EQ(daemon_.Register(pages, 8 * kPageBytes, again), 0);
  ASSERT_EQ(daemon_.Register(pages + 5000, 100, nested), 0);
  EXPECT_EQ(daemon_.segment_count(), 1u);
  EXPECT_EQ(daemon_.region(nested).segments[0].segment_offset, 5000u);
  ASSERT_EQ(daemon_.Register(pages + 4 * kPageBytes, 8 * kPageBytes, overlapping), 0);
  EXPECT_EQ(daemon_.segment_count(), 2u);
  EXPECT_EQ(daemon_.Shape(overlapping), "m16384 m16384");
  daemon_.Write(overlapping, pages + 6 * kPageBytes, "over");
  EXPECT_EQ(daemon_.Read(whole, pages + 6 * kPageBytes, 4), "over");
  EXPECT_EQ(daemon_.Deregister(whole), 0);
  EXPECT_EQ(daemon_.Deregister(again), 0);
  EXPECT_EQ(daemon_.Deregister(nested), 0);
  EXPECT_EQ(daemon_.segment_count(), 2u);
  EXPECT_EQ(daemon_.Read(overlapping, pages + 6 * kPageBytes, 4), "over");
  EXPECT_EQ(daemon_.Deregister(overlapping), 0);
  EXPECT_EQ(daemon_.segment_count(), 0u);
}

TEST_F(RegistrationTest, PagesOfADeadSegmentAreRemappedAgain) {
  uint8_t* pages = MapPages(4);
  memset(pages, '1', 4 * kPageBytes);
  ASSERT_EQ(daemon_.Register(pages, 4 * kPageBytes, mr_), 0);
  ASSERT_EQ(daemon_.Deregister(mr_), 0);
  pages[0] = '2';
  ASSERT_EQ(daemon_.Register(pages, 2 * kPageBytes, mr_), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "m8192");
  EXPECT_EQ(daemon_.segments_made(), 2u);
  EXPECT_EQ(daemon_.Read(mr_, pages, 3), "211");
  pages[1] = '3';
  EXPECT_EQ(daemon_.Read(mr_, pages, 3), "231");
  EXPECT_EQ(pages[3 * kPageBytes], '1');
}

TEST_F(RegistrationTest, NewMemoryAtAnOldAddressIsRemappedAfresh) {
  uint8_t* pages = MapPages(4);
  MemoryRegistration old = {};
  ASSERT_EQ(daemon_.Register(pages, 4 * kPageBytes, old), 0);
  munmap(pages, 4 * kPageBytes);
  mmap(pages, 4 * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
       0);
  pages[0] = 'n';
  ASSERT_EQ(daemon_.Register(pages, 4 * kPageBytes, mr_), 0);
  EXPECT_EQ(daemon_.segment_count(), 2u);
  EXPECT_EQ(daemon_.Read(mr_, pages, 1), "n");
  EXPECT_EQ(daemon_.Read(old, pages, 1), std::string(1, '\0'));
}

TEST_F(RegistrationTest, MovedAndGrownPagesAreFound) {
  uint8_t* pages = MapPages(2);
  MemoryRegistration small = {};
  memset(pages, 'g', 2 * kPageBytes);
  ASSERT_EQ(daemon_.Register(pages, 2 * kPageBytes, small), 0);
  auto* grown =
      static_cast<uint8_t*>(mremap(pages, 2 * kPageBytes, 6 * kPageBytes, MREMAP_MAYMOVE));
  ASSERT_NE(grown, MAP_FAILED);
  grown[5 * kPageBytes] = 'x';
  ASSERT_EQ(daemon_.Register(grown, 6 * kPageBytes, mr_), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "m8192 m16384");
  EXPECT_EQ(daemon_.segment_count(), 2u);
  EXPECT_EQ(daemon_.Read(mr_, grown + 5 * kPageBytes, 1), "x");
  grown[1] = 'y';
  EXPECT_EQ(daemon_.Read(small, pages, 2), "gy");
}

TEST_F(RegistrationTest, ForcedCopyMapsNothing) {
  SetPolicy(MrPolicy::kCopied);
  uint8_t* pages = MapPages(4);
  ASSERT_EQ(daemon_.Register(pages, 4 * kPageBytes, mr_), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "c16384");
  EXPECT_EQ(PageKind(pages), "private");
}

TEST_F(RegistrationTest, ForcedMappingTakesPartsOfHeapPages) {
  SetPolicy(MrPolicy::kMapped);
  uint8_t* block = GrowHeap(40000);
  ASSERT_EQ(daemon_.Register(block, 40000, mr_), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "m40000");
}

/// Pins pages for as long as it lives, as programs do for fast I/O.
class Pin {
 public:
  Pin(uint8_t* pages, size_t count) {
    io_uring_params parameters = {};
    ring_ = static_cast<int>(syscall(SYS_io_uring_setup, 1, &parameters));
    const iovec buffer = {pages, count * kPageBytes};
    is_held_ = ring_ >= 0 &&
               syscall(SYS_io_uring_register, ring_, IORING_REGISTER_BUFFERS, &buffer, 1) == 0;
  }
  ~Pin() {
    if (!is_held_) return;
    syscall(SYS_io_uring_register, ring_, IORING_UNREGISTER_BUFFERS, nullptr, 0);
    close(ring_);
  }
  bool is_held() const { return is_held_; }

 private:
  int ring_;
  bool is_held_;
};

// A process that has pinned pages continues to use them, whatever is mapped there.
TEST_F(RegistrationTest, WhilePagesArePinnedNoneAreReplaced) {
  EXPECT_FALSE(HasCountedPins());
  uint8_t* pages = MapPages(4);
  MemoryRegistration before = {};
  uint8_t* others = MapPages(4);
  others[0] = 'o';
  ASSERT_EQ(daemon_.Register(others, 4 * kPageBytes, before), 0);
  {
    const Pin pin(pages, 1);
    if (!pin.is_held()) GTEST_SKIP() << "no io_uring here";
    EXPECT_TRUE(HasCountedPins());
    ASSERT_EQ(daemon_.Register(pages, 4 * kPageBytes, mr_), 0);
    EXPECT_EQ(daemon_.Shape(mr_), "c16384");
    EXPECT_EQ(daemon_.region(mr_).segments[0].reason, UROCE_WHY_PINNED);
    EXPECT_EQ(PageKind(pages), "private");
    EXPECT_EQ(daemon_.Deregister(before), 0);
    EXPECT_EQ(PageKind(others), "segment");
    EXPECT_EQ(others[0], 'o');
    SetPolicy(MrPolicy::kMapped);
    ASSERT_EQ(daemon_.Register(MapPages(1), kPageBytes, before), 0);
    EXPECT_EQ(daemon_.Shape(before), "m4096");
  }
}

TEST_F(RegistrationTest, CopiesWhenTheDaemonHasNoSegment) {
  daemon_.segment_error = ENOMEM;
  uint8_t* pages = MapPages(4);
  ASSERT_EQ(daemon_.Register(pages, 4 * kPageBytes, mr_), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "c16384");
  EXPECT_TRUE(daemon_.has_memory_fd());
}

TEST_F(RegistrationTest, ARefusedRegionLeavesNoSegment) {
  daemon_.region_error = ENOMEM;
  uint8_t* pages = MapPages(4);
  pages[0] = 'k';
  EXPECT_EQ(daemon_.Register(pages, 4 * kPageBytes, mr_), ENOMEM);
  EXPECT_EQ(daemon_.segment_count(), 0u);
  EXPECT_EQ(pages[0], 'k');
  daemon_.region_error = 0;
  EXPECT_EQ(daemon_.Register(pages, 4 * kPageBytes, mr_), 0);
  EXPECT_EQ(daemon_.Read(mr_, pages, 1), "k");
}

TEST_F(RegistrationTest, WhatIsBehindTheMostPartsIsCopied) {
  constexpr size_t kPages = UROCE_MAX_MR_PARTS + 100;
  uint8_t* pages = MapPages(kPages);
  SharedPages shared;
  for (size_t i = 0; i < kPages; i += 2) {
    ASSERT_NE(mmap(pages + i * kPageBytes, kPageBytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED, shared.fd, 0),
              MAP_FAILED);
  }
  ASSERT_EQ(daemon_.Register(pages, kPages * kPageBytes, mr_), 0);
  const auto& parts = daemon_.region(mr_).segments;
  ASSERT_EQ(parts.size(), UROCE_MAX_MR_PARTS);
  EXPECT_EQ(parts[UROCE_MAX_MR_PARTS - 2].mode, static_cast<uint32_t>(UROCE_MR_SHARED));
  EXPECT_EQ(parts.back().mode, static_cast<uint32_t>(UROCE_MR_COPIED));
  EXPECT_EQ(parts.back().reason, UROCE_WHY_MANY_PARTS);
  EXPECT_EQ(parts.back().length, 101 * kPageBytes);
}

TEST_F(RegistrationTest, NeighboursInOneFileAreOnePart) {
  SharedPages shared;
  uint8_t* pages = MapPages(2);
  for (size_t i = 0; i < 2; ++i) {
    mmap(pages + i * kPageBytes, kPageBytes, i == 0 ? PROT_READ : PROT_READ | PROT_WRITE,
         MAP_SHARED | MAP_FIXED, shared.fd, static_cast<off_t>(i * kPageBytes));
  }
  ASSERT_EQ(daemon_.Register(pages, 2 * kPageBytes, mr_, kRemoteRead), 0);
  EXPECT_EQ(daemon_.Shape(mr_), "s8192");
  EXPECT_EQ(daemon_.files_lent(), 1u);
}

TEST_F(RegistrationTest, ProtectionIsKept) {
  uint8_t* pages = MapPages(2, PROT_READ | PROT_WRITE | PROT_EXEC);
#ifdef __aarch64__
  constexpr uint8_t kReturn[] = {0xc0, 0x03, 0x5f, 0xd6};
#else
  constexpr uint8_t kReturn[] = {0xc3};
#endif
  memcpy(pages, kReturn, sizeof kReturn);
  __builtin___clear_cache(reinterpret_cast<char*>(pages),
                          reinterpret_cast<char*>(pages + sizeof kReturn));
  ASSERT_EQ(daemon_.Register(pages, 2 * kPageBytes, mr_), 0);
  EXPECT_EQ(PageKind(pages), "segment");
  reinterpret_cast<void (*)()>(pages)();
}

TEST_F(RegistrationTest, FreeAndReallocUnderALiveRegionAreHarmless) {
  for (size_t bytes : {size_t{100000}, size_t{5000000}}) {
    auto* block = static_cast<char*>(malloc(bytes));
    memset(block, 'r', bytes);
    ASSERT_EQ(daemon_.Register(block, bytes, mr_), 0);
    block = static_cast<char*>(realloc(block, 3 * bytes));
    EXPECT_EQ(std::string(block, bytes), std::string(bytes, 'r'));
    free(block);
    for (int i = 0; i < 200; ++i) free(memset(malloc(bytes / 50), i, bytes / 50));
    void* zeroed = calloc(1, bytes);
    EXPECT_EQ(std::string(static_cast<char*>(zeroed), bytes), std::string(bytes, '\0'));
    free(zeroed);
    ASSERT_EQ(daemon_.Deregister(mr_), 0);
  }
}

TEST_F(RegistrationTest, SegmentsOfAnotherSessionAreNotReused) {
  uint8_t* pages = MapPages(4);
  ASSERT_EQ(daemon_.Register(pages, 4 * kPageBytes, mr_), 0);
  FakeDaemon& other = FakeDaemon::Make();
  MemoryRegistration second = {};
  ASSERT_EQ(other.Register(pages, 4 * kPageBytes, second), 0);
  EXPECT_EQ(other.segment_count(), 1u);
  pages[0] = 'o';
  EXPECT_EQ(other.Read(second, pages, 1), "o");
}

}  // namespace
}  // namespace uroce::memory
