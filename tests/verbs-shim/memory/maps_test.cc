// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/maps.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace uroce::memory {
namespace {

// ---- Mappings ----

VmaKind KindOf(std::string_view line) {
  Vma vma;
  EXPECT_TRUE(ParseMapsLine(line, vma)) << line;
  return vma.kind;
}

TEST(MapsTest, TakesEveryField) {
  Vma vma;
  ASSERT_TRUE(ParseMapsLine(
      "7f2e17cb5000-7f2e17cdb000 r-xp 00026000 fe:00 332835      /usr/lib/libc.so.6", vma));
  EXPECT_EQ(vma.start, 0x7f2e17cb5000u);
  EXPECT_EQ(vma.end, 0x7f2e17cdb000u);
  EXPECT_EQ(vma.file_offset, 0x26000u);
  EXPECT_EQ(vma.device, MakeDevice(0xfe, 0));
  EXPECT_EQ(vma.inode, 332835u);
  EXPECT_TRUE(vma.readable);
  EXPECT_FALSE(vma.writable);
  EXPECT_TRUE(vma.executable);
  EXPECT_FALSE(vma.shared);
  EXPECT_EQ(vma.kind, VmaKind::kFile);
}

TEST(MapsTest, KnowsMemoryByItsName) {
  EXPECT_EQ(KindOf("1000-2000 rw-p 00000000 00:00 0 "), VmaKind::kAnonymous);
  EXPECT_EQ(KindOf("1000-2000 rw-p 00000000 00:00 0      [heap]"), VmaKind::kHeap);
  EXPECT_EQ(KindOf("1000-2000 rw-p 00000000 00:00 0      [stack]"), VmaKind::kStack);
  EXPECT_EQ(KindOf("1000-2000 rw-p 00000000 00:00 0      [anon:some name]"), VmaKind::kAnonymous);
  EXPECT_EQ(KindOf("1000-2000 r--p 00000000 00:00 0      [vvar]"), VmaKind::kSpecial);
  EXPECT_EQ(KindOf("1000-2000 r--p 00000000 00:00 0      [vvar_vclock]"), VmaKind::kSpecial);
  EXPECT_EQ(KindOf("1000-2000 r-xp 00000000 00:00 0      [vdso]"), VmaKind::kFile);
  EXPECT_EQ(KindOf("1000-2000 rw-s 00000000 00:01 5      /dev/zero (deleted)"), VmaKind::kShared);
  EXPECT_EQ(KindOf("1000-2000 rw-s 00000000 00:00 0      [anon_shmem:x]"), VmaKind::kShared);
  EXPECT_EQ(KindOf("1000-2000 rw-p 00000000 00:0f 7      /anon_hugepage (deleted)"),
            VmaKind::kFile);
}

TEST(MapsTest, ASegmentIsASharedMappingOfItsName) {
  EXPECT_EQ(KindOf("1000-2000 rw-s 00001000 00:01 12     /memfd:uroce-segment (deleted)"),
            VmaKind::kSegment);
  EXPECT_EQ(KindOf("1000-2000 rw-p 00001000 00:01 12     /memfd:uroce-segment (deleted)"),
            VmaKind::kFile);
  EXPECT_EQ(KindOf("1000-2000 rw-s 00001000 00:01 12     /memfd:uroce-segments (deleted)"),
            VmaKind::kShared);
  EXPECT_EQ(KindOf("1000-2000 rw-s 00001000 00:01 12     /memfd:uroce-segment"), VmaKind::kShared);
}

TEST(MapsTest, AnythingElseIsNoLine) {
  Vma vma;
  EXPECT_FALSE(ParseMapsLine("", vma));
  EXPECT_FALSE(ParseMapsLine("1000-2000", vma));
  EXPECT_FALSE(ParseMapsLine("1000-2000 rw-p", vma));
  EXPECT_FALSE(ParseMapsLine("1000-2000 rw-p 00000000 00:00 ", vma));
  EXPECT_FALSE(ParseMapsLine("2000-1000 rw-p 00000000 00:00 0 ", vma));
  EXPECT_FALSE(ParseMapsLine("xyz", vma));
}

TEST(MapsTest, ReadsTheMappingsOfAWindowOnly) {
  constexpr uint64_t kPages = 300;
  auto* area = static_cast<char*>(
      mmap(nullptr, kPages * kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (uint64_t i = 0; i < kPages; i += 2) {
    mprotect(area + i * kPageBytes, kPageBytes, PROT_READ);
  }
  const auto start = reinterpret_cast<uint64_t>(area);
  MappedArray<Vma> mappings;
  ASSERT_EQ(ReadMaps({start + 10 * kPageBytes, start + 290 * kPageBytes}, mappings), 0);
  ASSERT_EQ(mappings.size(), 280u);
  EXPECT_EQ(mappings[0].start, start + 10 * kPageBytes);
  EXPECT_TRUE(mappings[0].readable);
  EXPECT_FALSE(mappings[1].readable);
  EXPECT_EQ(mappings.back().end, start + 290 * kPageBytes);
  mappings.Release();
}

TEST(MapsTest, AskingAndReadingAgree) {
  MappedArray<Vma> read, asked;
  const AddressRange all{0, uint64_t{1} << 47};
  // Both arrays have their memory before the lists are made.
  ASSERT_EQ(ReadMaps(all, asked), 0);
  ASSERT_EQ(ReadMaps(all, read), 0);
  asked.Clear();
  read.Clear();
  ASSERT_EQ(ReadMaps(all, read), 0);
  if (QueryMaps(all, all, asked) != 0) GTEST_SKIP() << "needs Linux 6.11";
  ASSERT_EQ(asked.size(), read.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(asked[i].start, read[i].start);
    EXPECT_EQ(asked[i].file_offset, read[i].file_offset);
    EXPECT_EQ(asked[i].device, read[i].device);
    EXPECT_EQ(asked[i].inode, read[i].inode);
    EXPECT_EQ(asked[i].kind, read[i].kind);
    EXPECT_EQ(asked[i].shared, read[i].shared);
    EXPECT_EQ(asked[i].writable, read[i].writable);
    EXPECT_EQ(asked[i].end, read[i].end);
  }
  read.Release();
  asked.Release();
}

TEST(MapsTest, AskingLooksAroundTheRegionUpToAGap) {
  auto* area = static_cast<char*>(
      mmap(nullptr, 9 * kPageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const auto page = [area](int i) { return reinterpret_cast<uint64_t>(area) + i * kPageBytes; };
  mprotect(area + 3 * kPageBytes, kPageBytes, PROT_READ | PROT_WRITE);
  munmap(area + 1 * kPageBytes, kPageBytes);
  munmap(area + 6 * kPageBytes, kPageBytes);
  MappedArray<Vma> asked;
  // Pages 0, 2, 3 (writable), 4-5 and 7-8 are there; the region is page 3.
  if (QueryMaps({page(3), page(4)}, {page(2), page(9)}, asked) != 0)
    GTEST_SKIP() << "needs Linux 6.11";
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(asked[0].start, page(2));
  EXPECT_EQ(asked[1].start, page(3));
  EXPECT_EQ(asked[2].end, page(6));
  asked.Clear();
  ASSERT_EQ(QueryMaps({page(4), page(8)}, {page(1), page(9)}, asked), 0);
  EXPECT_GE(asked.back().end, page(9));
  asked.Release();
}

TEST(MapsTest, AMappingThatWasExtendedMeanwhileBeginsWhereTheOneBeforeItEnds) {
  MappedArray<Vma> vmas;
  Vma heap = {};
  heap.start = 0x1000;
  heap.end = 0x5000;
  ASSERT_TRUE(AppendFrom(0, heap, vmas));
  heap.end = 0x8000;
  ASSERT_TRUE(AppendFrom(0x5000, heap, vmas));
  ASSERT_TRUE(AppendFrom(0x8000, heap, vmas)) << "nothing of it is new";
  ASSERT_EQ(vmas.size(), 2u);
  EXPECT_EQ(vmas[0].end, 0x5000u);
  EXPECT_EQ(vmas[1].start, 0x5000u);
  EXPECT_EQ(vmas[1].end, 0x8000u);
  EXPECT_EQ(vmas[1].file_offset, 0u);
  Vma file = heap;
  file.inode = 7;
  file.file_offset = 0x20000;
  ASSERT_TRUE(AppendFrom(0x2000, file, vmas));
  EXPECT_EQ(vmas[2].file_offset, 0x21000u);
  vmas.Release();
}

// Two parts of a region that are the same pages would be remapped twice. The loop allocates
// nothing: the heap's end is the other thread's alone.
TEST(MapsTest, MappingsDoNotOverlapWhileTheHeapGrows) {
  std::atomic<bool> stop = false;
  std::thread other([&stop] {
    while (!stop) {
      if (sbrk(4 * kPageBytes) == reinterpret_cast<void*>(-1)) break;
      sbrk(-4 * static_cast<intptr_t>(kPageBytes));
    }
  });
  MappedArray<Vma> vmas;
  int failed = 0, overlapping = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto end = PageDown(reinterpret_cast<uint64_t>(sbrk(0)));
    const AddressRange region{end - kPageBytes, end};
    const AddressRange window{region.start, end + 64 * kPageBytes};
    vmas.Clear();
    failed += (round % 8 == 0 ? ReadMaps(window, vmas) : FindMaps(region, window, vmas)) != 0;
    for (size_t i = 1; i < vmas.size(); ++i) overlapping += vmas[i].start < vmas[i - 1].end;
  }
  stop = true;
  other.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(overlapping, 0);
  vmas.Release();
}

// ---- How many mappings the shim may add ----

TEST(MapBudgetTest, AnEighthOfTheLimitIsTheProgramsOwn) {
  EXPECT_EQ(MapBudget::Share(7000, 8000), 0u);
  EXPECT_EQ(MapBudget::Share(6998, 8000), 0u) << "a remap may take three";
  EXPECT_EQ(MapBudget::Share(6997, 8000), 1u);
  EXPECT_EQ(MapBudget::Share(70000, 65530), 0u);
}

TEST(MapBudgetTest, ItIsLookedAtAgainAfterAThousandRemaps) {
  EXPECT_EQ(MapBudget::Share(50, 65530), 1024u);
  EXPECT_EQ(MapBudget::Share(50, 10'000'000), 1024u);
}

TEST(MapBudgetTest, AnOrdinaryProgramHasRoom) {
  MapBudget budget;
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(budget.Take());
}

}  // namespace
}  // namespace uroce::memory
