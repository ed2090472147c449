// SPDX-License-Identifier: Apache-2.0
// Which parts of a region are mapped, shared and copied, and why, for made-up layouts of memory.
#include "verbs-shim/memory/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <string>
#include <vector>

namespace uroce::memory {
namespace {

constexpr char kSegment[] = "/memfd:uroce-segment (deleted)";

/// A layout of memory, and how a region in it is split.
class PlanTest : public testing::Test {
 protected:
  void Map(uint64_t start, uint64_t end, const std::string& permissions,
           const std::string& rest = "00000000 00:00 0 ") {
    std::ostringstream line;
    line << std::hex << start << '-' << end << ' ' << permissions << ' ' << rest;
    Vma vma;
    ASSERT_TRUE(ParseMapsLine(line.str(), vma)) << line.str();
    mappings_.push_back(vma);
  }
  void MapSegment(uint64_t start, uint64_t end, uint64_t offset, int inode) {
    std::ostringstream rest;
    rest << std::hex << offset << std::dec << " 00:01 " << inode << "   " << kSegment;
    Map(start, end, "rw-s", rest.str());
  }

  /// "c@1010+f0 s@2000+1000[2000-3000] f@3000+1000:0 l@4000+10#7:40": copied, remap with its pages,
  /// shared with the offset in its file, live with index and offset. Or "errno N".
  std::string PlanOf(uint64_t start, uint64_t end) {
    request_.region = {start, end};
    MappedArray<RegionPart> parts;
    const int error = Plan(request_, {mappings_, untouchable_, live_}, parts);
    std::ostringstream text;
    if (error != 0) text << "errno " << error;
    for (const RegionPart& part : parts) {
      if (error != 0) break;
      text << (&part == parts.begin() ? "" : " ") << std::hex << "csfl"[static_cast<int>(part.kind)]
           << '@' << part.addr << '+' << part.length;
      if (part.kind == PartKind::kRemap) {
        text << '[' << part.pages.start << '-' << part.pages.end << ']';
      }
      if (part.kind == PartKind::kShare) text << ':' << part.file_offset;
      if (part.kind == PartKind::kLive) text << '#' << part.segment << ':' << part.file_offset;
    }
    parts.Release();
    return text.str();
  }

  /// Why each part is copied that is.
  std::vector<uroce_mr_reason> ReasonsOf(uint64_t start, uint64_t end) {
    request_.region = {start, end};
    MappedArray<RegionPart> parts;
    std::vector<uroce_mr_reason> reasons;
    EXPECT_EQ(Plan(request_, {mappings_, untouchable_, live_}, parts), 0);
    for (const RegionPart& part : parts) {
      if (part.kind == PartKind::kCopied) reasons.push_back(part.reason);
    }
    parts.Release();
    return reasons;
  }

  /// The daemon maps [0, length) of memfd `inode`, under `index`.
  void AddLiveSegment(uint32_t index, uint64_t inode, uint64_t length, bool writable = true) {
    live_.push_back({{.device = MakeDevice(0, 1),
                      .inode = inode,
                      .offset = 0,
                      .length = length,
                      .writable = writable},
                     index});
  }

  PlanRequest request_{.region = {0, 0},
                       .needs_write = true,
                       .policy = MrPolicy::kAutomatic,
                       .knows_threads = true,
                       .whole_partial_pages = true,
                       .max_parts = 64};
  std::vector<Vma> mappings_;
  std::vector<AddressRange> untouchable_;
  std::vector<LiveSegment> live_;
};

const std::string kFault = "errno " + std::to_string(EFAULT);

TEST_F(PlanTest, AnonymousPagesAreRemapped) {
  Map(0x10000, 0x20000, "rw-p");
  EXPECT_EQ(PlanOf(0x11000, 0x13000), "s@11000+2000[11000-13000]");
}

TEST_F(PlanTest, PartlyCoveredPagesAreRemappedWhole) {
  Map(0x10000, 0x20000, "rw-p");
  EXPECT_EQ(PlanOf(0x11010, 0x13020), "s@11010+2010[11000-14000]");
  EXPECT_EQ(PlanOf(0x11010, 0x11018), "s@11010+8[11000-12000]");
}

TEST_F(PlanTest, PartlyCoveredPagesAreCopiedWhereKernelWritersWouldFail) {
  Map(0x10000, 0x20000, "rw-p");
  request_.whole_partial_pages = false;
  EXPECT_EQ(PlanOf(0x11010, 0x13020), "c@11010+ff0 s@12000+1000[12000-13000] c@13000+20");
  EXPECT_EQ(PlanOf(0x11010, 0x11018), "c@11010+8");
  EXPECT_EQ(PlanOf(0x11010, 0x12010), "c@11010+1000");
  EXPECT_EQ(PlanOf(0x11000, 0x12010), "s@11000+1000[11000-12000] c@12000+10");
}

// glibc's fork writes to FILE locks and arena headers in the child before any handler runs.
TEST_F(PlanTest, PartlyCoveredHeapPagesAreCopied) {
  Map(0x10000, 0x20000, "rw-p", "00000000 00:00 0     [heap]");
  EXPECT_EQ(PlanOf(0x11010, 0x13020), "c@11010+ff0 s@12000+1000[12000-13000] c@13000+20");
  request_.policy = MrPolicy::kMapped;
  EXPECT_EQ(PlanOf(0x11010, 0x13020), "s@11010+2010[11000-14000]");
}

TEST_F(PlanTest, PartlyCoveredArenaPagesAreCopied) {
  Map(0x7f0004000000, 0x7f0004100000, "rw-p");
  Map(0x7f0004100000, 0x7f0008000000, "---p");
  EXPECT_EQ(PlanOf(0x7f0004001010, 0x7f0004003000),
            "c@7f0004001010+ff0 s@7f0004002000+1000[7f0004002000-7f0004003000]");
}

TEST_F(PlanTest, AnArenaInPiecesIsStillOne) {
  Map(0x7f0004000000, 0x7f0004001000, "rw-p");
  MapSegment(0x7f0004001000, 0x7f0004002000, 0, 7);
  Map(0x7f0004002000, 0x7f0004003000, "rw-p");
  Map(0x7f0004003000, 0x7f0008000000, "---p");
  EXPECT_EQ(PlanOf(0x7f0004002010, 0x7f0004002020), "c@7f0004002010+10");
}

TEST_F(PlanTest, AnArenaThatIsFullIsStillOne) {
  Map(0x7f0003fff000, 0x7f0008001000, "rw-p");
  EXPECT_EQ(PlanOf(0x7f0004002010, 0x7f0004002020), "c@7f0004002010+10");
}

TEST_F(PlanTest, OtherMemoryNearArenaBoundariesIsNoArena) {
  Map(0x7f0003000000, 0x7f0005000000, "rw-p");
  EXPECT_EQ(PlanOf(0x7f0004002010, 0x7f0004002020), "s@7f0004002010+10[7f0004002000-7f0004003000]");
  mappings_.clear();
  Map(0x7f0004000000, 0x7f0004100000, "rw-p");
  Map(0x7f0004100000, 0x7f0004101000, "---p");  // A guard, not the rest of an arena.
  EXPECT_EQ(PlanOf(0x7f0004002010, 0x7f0004002020), "s@7f0004002010+10[7f0004002000-7f0004003000]");
}

TEST_F(PlanTest, StacksAndControlBlocksAreCopied) {
  Map(0x10000, 0x20000, "rw-p");
  untouchable_ = {{0x18000, 0x19000}, {0x13000, 0x14000}};
  EXPECT_EQ(PlanOf(0x12000, 0x1a000),
            "s@12000+1000[12000-13000] c@13000+1000 s@14000+4000[14000-18000] c@18000+1000 "
            "s@19000+1000[19000-1a000]");
  EXPECT_EQ(PlanOf(0x13800, 0x13900), "c@13800+100");
}

TEST_F(PlanTest, TheMainStackIsCopied) {
  Map(0x10000, 0x20000, "rw-p", "00000000 00:00 0     [stack]");
  EXPECT_EQ(PlanOf(0x12000, 0x14000), "c@12000+2000");
}

TEST_F(PlanTest, PrivateMappingsOfFilesAreCopied) {
  Map(0x10000, 0x11000, "rw-p", "00000000 fe:00 77    /usr/bin/program");
  Map(0x11000, 0x12000, "rw-p", "00000000 00:0f 79    /anon_hugepage (deleted)");
  Map(0x12000, 0x13000, "rw-p");
  EXPECT_EQ(PlanOf(0x10010, 0x12ff0), "c@10010+1ff0 s@12000+ff0[12000-13000]");
}

TEST_F(PlanTest, SharedMemoryIsLentAsItIs) {
  Map(0x10000, 0x12000, "rw-s", "00003000 00:01 78    /dev/shm/x");
  Map(0x12000, 0x13000, "r--s", "00000000 00:01 79    /dev/shm/y");
  EXPECT_EQ(PlanOf(0x10010, 0x12000), "f@10010+1ff0:3010");
  EXPECT_EQ(PlanOf(0x11010, 0x13000), kFault);
  request_.needs_write = false;
  EXPECT_EQ(PlanOf(0x11010, 0x12010), "f@11010+ff0:4010 f@12000+10:0");
}

TEST_F(PlanTest, SharedMappingsThatLieTogetherInOneFileAreOnePart) {
  Map(0x10000, 0x11000, "rw-s", "00000000 00:01 78    /dev/shm/x");
  Map(0x11000, 0x12000, "rwxs", "00001000 00:01 78    /dev/shm/x");
  Map(0x12000, 0x13000, "rw-s", "00003000 00:01 78    /dev/shm/x");
  Map(0x13000, 0x14000, "rw-s", "00004000 00:01 79    /dev/shm/y");
  EXPECT_EQ(PlanOf(0x10000, 0x14000), "f@10000+2000:0 f@12000+1000:3000 f@13000+1000:4000");
}

TEST_F(PlanTest, ASharedFileThatTheDaemonMapsIsNotLentAgain) {
  Map(0x10000, 0x14000, "rw-s", "00001000 00:01 78    /dev/shm/x");
  AddLiveSegment(4, 79, 0x100000);
  AddLiveSegment(5, 78, 0x3000);
  EXPECT_EQ(PlanOf(0x10000, 0x12000), "l@10000+2000#5:1000");
  EXPECT_EQ(PlanOf(0x10000, 0x13000), "f@10000+3000:1000") << "not all of it is mapped";
}

TEST_F(PlanTest, AFileOfTheSameNumberOnAnotherDeviceIsAnother) {
  Map(0x10000, 0x14000, "rw-s", "00000000 00:21 78    /mnt/x");
  AddLiveSegment(5, 78, 0x3000);
  EXPECT_EQ(PlanOf(0x10000, 0x12000), "f@10000+2000:0");
}

TEST_F(PlanTest, ASharedFileThatIsMappedForReadingIsLentAgainForWriting) {
  Map(0x10000, 0x14000, "rw-s", "00000000 00:01 78    /dev/shm/x");
  AddLiveSegment(5, 78, 0x4000, /*writable=*/false);
  EXPECT_EQ(PlanOf(0x10000, 0x12000), "f@10000+2000:0");
  request_.needs_write = false;
  EXPECT_EQ(PlanOf(0x10000, 0x12000), "l@10000+2000#5:0");
}

TEST_F(PlanTest, EveryCopiedPartSaysWhy) {
  Map(0x10000, 0x11000, "rw-p", "00000000 fe:00 77    /usr/bin/program");
  Map(0x11000, 0x13000, "rw-p", "00000000 00:00 0     [heap]");
  Map(0x13000, 0x14000, "rw-p");
  Map(0x14000, 0x15000, "r--p");
  Map(0x15000, 0x16000, "rw-p", "00000000 00:00 0     [stack]");
  untouchable_ = {{0x13000, 0x14000}};
  request_.needs_write = false;
  using Reasons = std::vector<uroce_mr_reason>;
  EXPECT_EQ(ReasonsOf(0x10000, 0x16000), Reasons({UROCE_WHY_FILE_MAPPING, UROCE_WHY_STACK,
                                                  UROCE_WHY_READ_ONLY, UROCE_WHY_STACK}));
  EXPECT_EQ(ReasonsOf(0x11010, 0x12010), Reasons({UROCE_WHY_HEAP_PAGE}));
  untouchable_.clear();
  request_.whole_partial_pages = false;
  EXPECT_EQ(ReasonsOf(0x13010, 0x13020), Reasons({UROCE_WHY_PARTIAL_PAGE}));
  request_.knows_threads = false;
  EXPECT_EQ(ReasonsOf(0x13000, 0x14000), Reasons({UROCE_WHY_UNKNOWN_THREADS}));
  request_.policy = MrPolicy::kCopied;
  EXPECT_EQ(ReasonsOf(0x10000, 0x16000), Reasons({UROCE_WHY_POLICY_OF_FILE, UROCE_WHY_POLICY}));
}

TEST_F(PlanTest, ReadOnlyMemoryIsCopiedForReadersOnly) {
  Map(0x10000, 0x11000, "r--p");
  EXPECT_EQ(PlanOf(0x10000, 0x11000), kFault);
  request_.needs_write = false;
  EXPECT_EQ(PlanOf(0x10000, 0x11000), "c@10000+1000");
}

TEST_F(PlanTest, MissingOrUnreadableMemoryFaults) {
  Map(0x10000, 0x11000, "rw-p");
  Map(0x12000, 0x13000, "rw-p");
  Map(0x13000, 0x14000, "---p");
  request_.needs_write = false;
  EXPECT_EQ(PlanOf(0x10000, 0x13000), kFault);
  EXPECT_EQ(PlanOf(0xf000, 0x11000), kFault);
  EXPECT_EQ(PlanOf(0x12000, 0x14000), kFault);
  EXPECT_EQ(PlanOf(0x13000, 0x15000), kFault);
  EXPECT_EQ(PlanOf(0x20000, 0x21000), kFault);
}

TEST_F(PlanTest, TheKernelsOwnPagesFault) {
  Map(0x10000, 0x11000, "r--p", "00000000 00:00 0     [vvar]");
  request_.needs_write = false;
  EXPECT_EQ(PlanOf(0x10000, 0x11000), kFault);
}

TEST_F(PlanTest, LiveSegmentsAreReusedAtAnyByte) {
  MapSegment(0x10000, 0x18000, 0x2000, 7);
  AddLiveSegment(3, 7, 0x20000);
  EXPECT_EQ(PlanOf(0x11010, 0x11018), "l@11010+8#3:3010");
}

TEST_F(PlanTest, NeighboursOfALiveSegmentAreRemappedBesideIt) {
  Map(0x10000, 0x12000, "rw-p");
  MapSegment(0x12000, 0x14000, 0, 7);
  Map(0x14000, 0x16000, "rw-p");
  AddLiveSegment(3, 7, 0x2000);
  EXPECT_EQ(PlanOf(0x11000, 0x15000),
            "s@11000+1000[11000-12000] l@12000+2000#3:0 s@14000+1000[14000-15000]");
}

TEST_F(PlanTest, SegmentsWithoutARegionAreRemappedAgain) {
  MapSegment(0x10000, 0x18000, 0, 7);
  EXPECT_EQ(PlanOf(0x11000, 0x12000), "s@11000+1000[11000-12000]");
}

TEST_F(PlanTest, PagesBehindALiveSegmentsEndAreRemappedAgain) {
  MapSegment(0x10000, 0x18000, 0, 7);
  AddLiveSegment(3, 7, 0x3000);
  EXPECT_EQ(PlanOf(0x12000, 0x15000), "l@12000+1000#3:2000 s@13000+2000[13000-15000]");
}

// Each has its own flags, which are to come back.
TEST_F(PlanTest, ARemapIsOfOneMapping) {
  Map(0x10000, 0x11000, "rw-p");
  Map(0x11000, 0x12000, "rw-p", "00000000 00:00 0     [anon:name]");
  Map(0x12000, 0x13000, "rwxp");
  EXPECT_EQ(PlanOf(0x10000, 0x13000),
            "s@10000+1000[10000-11000] s@11000+1000[11000-12000] s@12000+1000[12000-13000]");
}

// Addresses of huge pages are 200000 apart.
TEST_F(PlanTest, LongPrivateMemoryIsRemappedInPieces) {
  Map(0x40001000, 0x50000000, "rw-p");
  EXPECT_EQ(PlanOf(0x40001000, 0x41801000), "s@40001000+1800000[40001000-41801000]");
  EXPECT_EQ(PlanOf(0x40001010, 0x41801010),
            "s@40001010+ffeff0[40001000-41000000] s@41000000+801010[41000000-41802000]");
  EXPECT_EQ(PlanOf(0x40001000, 0x43801000),
            "s@40001000+fff000[40001000-41000000] s@41000000+1000000[41000000-42000000] "
            "s@42000000+1000000[42000000-43000000] s@43000000+801000[43000000-43801000]");
}

TEST_F(PlanTest, ALongerRegionHasLongerPieces) {
  constexpr uint64_t kStart = uint64_t{1} << 40;
  request_.max_parts = 2 * kMostPieces;
  Map(kStart, 2 * kStart, "rw-p");
  for (const uint64_t length :
       {uint64_t{1} << 30, uint64_t{3} << 30, kStart - kPageBytes, kStart}) {
    const std::string plan = PlanOf(kStart, kStart + length);
    const auto pieces = 1 + std::count(plan.begin(), plan.end(), ' ');
    EXPECT_GT(pieces, kMostPieces / 2) << length;
    EXPECT_LE(pieces, kMostPieces) << length;
    EXPECT_EQ(plan.find("c@"), std::string::npos) << length;
  }
}

TEST_F(PlanTest, ForcedCopyCopiesAll) {
  request_.policy = MrPolicy::kCopied;
  Map(0x10000, 0x12000, "rw-p");
  MapSegment(0x12000, 0x14000, 0, 7);
  AddLiveSegment(3, 7, 0x2000);
  EXPECT_EQ(PlanOf(0x10000, 0x14000), "c@10000+4000");
}

TEST_F(PlanTest, WhatIsBehindTheMostPartsIsCopied) {
  request_.max_parts = 3;
  Map(0x10000, 0x11000, "rw-p");
  Map(0x11000, 0x12000, "rw-s", "00000000 00:01 78    /dev/shm/x");
  Map(0x12000, 0x13000, "rw-p");
  Map(0x13000, 0x14000, "rw-s", "00000000 00:01 78    /dev/shm/x");
  EXPECT_EQ(PlanOf(0x10000, 0x13000),
            "s@10000+1000[10000-11000] f@11000+1000:0 s@12000+1000[12000-13000]");
  EXPECT_EQ(PlanOf(0x10000, 0x14000), "s@10000+1000[10000-11000] f@11000+1000:0 c@12000+2000");
}

TEST_F(PlanTest, TheWindowHoldsTheArenasOfPartlyCoveredPages) {
  const AddressRange window = PlanWindow({0x7f0004001000, 0x7f0008002000});
  EXPECT_EQ(window.start, 0x7f0004001000u);  // Whole pages: arenas do not matter.
  EXPECT_EQ(window.end, 0x7f0008002000u);
  const AddressRange wider = PlanWindow({0x7f0004001000, 0x7f0008001001});
  EXPECT_EQ(wider.start, 0x7f0004000000u);
  EXPECT_EQ(wider.end, 0x7f000c000000u);
}

}  // namespace
}  // namespace uroce::memory
