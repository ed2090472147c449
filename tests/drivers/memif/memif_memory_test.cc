// SPDX-License-Identifier: Apache-2.0
#include "drivers/memif/memif_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>

namespace uroce::drivers {
namespace {

TEST(MemifMemoryTest, OnlyMemoryThatCannotShrinkIsMapped) {
  EXPECT_FALSE(MapMemifMemory(Fd(memfd_create("t", MFD_ALLOW_SEALING)), 4096).ok());
  EXPECT_FALSE(MapMemifMemory(Fd(), 4096).ok());
  auto memory = MakeMemifMemory(4096);
  ASSERT_TRUE(memory.ok());
  EXPECT_FALSE(MapMemifMemory(Fd(dup(memory->fd.get())), 4097).ok());
  EXPECT_FALSE(MapMemifMemory(Fd(dup(memory->fd.get())), 0).ok());
  EXPECT_TRUE(MapMemifMemory(Fd(dup(memory->fd.get())), 4096).ok());
  EXPECT_FALSE(IsEventFd(memory->fd.get()));
}

/// Huge pages that are free; 0 where there are none at all.
uint64_t FreeHugePages() {
  std::ifstream file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  uint64_t count = 0;
  file >> count;
  return count;
}

// A seal keeps the file's size, not its pages.
TEST(MemifMemoryTest, PagesThatThePeerTakesAwayAreZeros) {
  auto memory = MakeMemifMemory(8192);
  ASSERT_TRUE(memory.ok());
  memory->bytes()[0] = memory->bytes()[8191] = 7;
  ASSERT_TRUE(MappingGuard::Get().Strike(&memory->bytes()[100])) << "as on SIGBUS";
  EXPECT_EQ(memory->bytes()[0] + memory->bytes()[8191], 0);
  memory->bytes()[0] = 8;
  MappingGuard::Get().TakeStruck();
}

TEST(MemifMemoryTest, AHoleWhereThereIsNoHugePageIsZeros) {
  constexpr uint64_t kHuge = 2 << 20;
  constexpr uint64_t kMostPages = 8;  // That are taken from all others for a moment.
  const uint64_t before = FreeHugePages();
  if (before == 0 || before > kMostPages) {
    GTEST_SKIP() << "needs 1 to " << kMostPages << " free huge pages of 2 MB";
  }
  Fd file(memfd_create("t", MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB));
  ASSERT_EQ(ftruncate(file.get(), kHuge), 0);
  ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  {
    const auto memory = MapMemifMemory(Fd(dup(file.get())), kHuge - 4096);
    ASSERT_TRUE(memory.ok()) << memory.status();
    memory->bytes()[0] = 7;
    ASSERT_EQ(fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kHuge), 0);
    const uint64_t bytes = FreeHugePages() * kHuge;
    const Mapping all(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0),
                      bytes);
    ASSERT_NE(static_cast<void*>(all.data()), MAP_FAILED);
    EXPECT_EQ(memory->bytes()[0], 0);
    MappingGuard::Get().TakeStruck();
  }
  file.Reset();
  EXPECT_EQ(FreeHugePages(), before) << "the mapping is gone, though not of whole pages";
}

}  // namespace
}  // namespace uroce::drivers
