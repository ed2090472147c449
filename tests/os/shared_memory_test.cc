// SPDX-License-Identifier: Apache-2.0
// Memory that a program takes away under a mapping becomes zeros, and the program is named.
#include "pipeline/os/shared_memory.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

namespace uroce::drivers {
namespace {

constexpr size_t kBytes = 8 * 4096;
constexpr size_t kPieceBytes = MappingGuard::kPieceBytes;

/// A file that can shrink, and a guarded mapping of it.
struct ShrinkingFile {
  explicit ShrinkingFile(uint32_t owner, size_t bytes = kBytes) : file(memfd_create("shrinks", 0)) {
    EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    memset(data, 'x', bytes);
    mapping = *GuardedMapping::Make(Mapping(data, bytes), owner);
  }
  void Shrink(off_t bytes = 0) const { EXPECT_EQ(ftruncate(file.get(), bytes), 0); }
  volatile uint8_t& at(size_t index) const { return mapping.data()[index]; }

  Fd file;
  GuardedMapping mapping;
};

bool IsReadable(int fd) {
  pollfd event{fd, POLLIN, 0};
  return poll(&event, 1, 0) == 1;
}

TEST(MappingGuardTest, AccessBehindTheEndOfAFileReadsZerosAndGoesOn) {
  const ShrinkingFile shrinking(7);
  EXPECT_EQ(shrinking.at(5000), 'x');
  shrinking.Shrink();
  EXPECT_EQ(shrinking.at(5000), 0);
  shrinking.at(5001) = 3;
  EXPECT_EQ(shrinking.at(5001), 3);
  EXPECT_EQ(shrinking.at(kBytes - 1), 0);
  EXPECT_EQ(MappingGuard::Get().TakeStruck(), std::vector<uint32_t>{7});
}

// To replace a gigabyte of pages takes 60 ms.
TEST(MappingGuardTest, OnlyThePieceThatIsAccessedIsReplaced) {
  const ShrinkingFile shrinking(7, 3 * kPieceBytes);
  shrinking.Shrink(2 * kPieceBytes);
  EXPECT_EQ(shrinking.at(2 * kPieceBytes), 0);
  EXPECT_EQ(shrinking.at(3 * kPieceBytes - 1), 0);
  EXPECT_EQ(shrinking.at(2 * kPieceBytes - 1), 'x');
  shrinking.Shrink();
  EXPECT_EQ(shrinking.at(kPieceBytes), 0) << "and further ones as they are accessed";
  EXPECT_EQ(MappingGuard::Get().TakeStruck(), std::vector<uint32_t>{7});
}

// The kernel limits the mappings of the daemon.
TEST(MappingGuardTest, AMappingWithManyPiecesIsReplacedAsAWhole) {
  constexpr size_t kPieces = MappingGuard::kMostPieces;
  const ShrinkingFile shrinking(7, (kPieces + 2) * kPieceBytes);
  shrinking.Shrink(kPieceBytes);
  for (size_t i = 1; i <= kPieces; ++i) ASSERT_EQ(shrinking.at(i * kPieceBytes), 0);
  EXPECT_EQ(shrinking.at(0), 'x');
  EXPECT_EQ(shrinking.at((kPieces + 1) * kPieceBytes), 0);
  EXPECT_EQ(shrinking.at(0), 0);
  EXPECT_EQ(MappingGuard::Get().TakeStruck(), std::vector<uint32_t>{7});
}

// Mappings that end give their pieces back.
TEST(MappingGuardTest, AllMappingsTogetherHaveABoundedNumberOfPieces) {
  constexpr size_t kPieces = MappingGuard::kMostPieces;
  constexpr size_t kMappings = MappingGuard::kMostPiecesOfAll / kPieces;
  for (int round = 0; round < 2; ++round) {
    std::vector<ShrinkingFile> files;
    for (size_t i = 0; i <= kMappings; ++i) {
      files.emplace_back(7, (kPieces + 1) * kPieceBytes);
      files.back().Shrink(kPieceBytes);
    }
    for (size_t i = 0; i < kMappings; ++i) {
      for (size_t piece = 1; piece <= kPieces; ++piece) {
        ASSERT_EQ(files[i].at(piece * kPieceBytes), 0);
      }
      EXPECT_EQ(files[i].at(0), 'x') << i;
    }
    EXPECT_EQ(files.back().at(kPieceBytes), 0);
    EXPECT_EQ(files.back().at(0), 0);
  }
  EXPECT_EQ(MappingGuard::Get().TakeStruck(), std::vector<uint32_t>{7});
}

TEST(MappingGuardTest, OnlyTheStruckMappingsOwnerIsNamedAndOnce) {
  const ShrinkingFile innocent(8), shrinking(9), shrinking_too(9);
  EXPECT_FALSE(IsReadable(MappingGuard::Get().event_fd()));
  shrinking.Shrink();
  shrinking_too.Shrink();
  EXPECT_EQ(shrinking.at(0) + shrinking_too.at(0), 0);
  EXPECT_EQ(innocent.at(0), 'x');
  EXPECT_TRUE(IsReadable(MappingGuard::Get().event_fd()));
  EXPECT_EQ(MappingGuard::Get().TakeStruck(), std::vector<uint32_t>{9});
  EXPECT_FALSE(IsReadable(MappingGuard::Get().event_fd()));
  EXPECT_TRUE(MappingGuard::Get().TakeStruck().empty());
}

/// Whether `guard` replaces what lies at `address` while the kernel grants no memory, as it may
/// with vm.overcommit_memory=2, which a test cannot set for itself.
bool StrikeWithoutMemory(MappingGuard& guard, const void* address) {
  rlimit before{};
  getrlimit(RLIMIT_DATA, &before);
  const rlimit none{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_DATA, &none);
  const bool is_struck = guard.Strike(address);
  setrlimit(RLIMIT_DATA, &before);
  return is_struck;
}

TEST(MappingGuardTest, PagesOfTheReserveServeWhereTheKernelGrantsNoMemory) {
  MappingGuard guard(2, 2);
  const ShrinkingFile first(7, kPieceBytes), second(8, kPieceBytes);
  const auto first_slot = guard.Add(first.mapping.data(), kPieceBytes, 7);
  const auto second_slot = guard.Add(second.mapping.data(), kPieceBytes, 8);
  ASSERT_TRUE(StrikeWithoutMemory(guard, first.mapping.data() + 5000));
  ASSERT_TRUE(StrikeWithoutMemory(guard, second.mapping.data()));
  EXPECT_FALSE(StrikeWithoutMemory(guard, second.mapping.data() + 8192)) << "there are two pages";
  first.at(5000) = 3;
  EXPECT_EQ(first.at(5001), 0);
  EXPECT_EQ(first.at(8192), 'x') << "the others stay";
  EXPECT_EQ(second.at(5000 - 4096), 0) << "each program has its own page";
  EXPECT_EQ(guard.TakeStruck(), (std::vector<uint32_t>{7, 8}));
  guard.Remove(*first_slot);
  ASSERT_TRUE(StrikeWithoutMemory(guard, second.mapping.data() + 8192)) << "that of the first one";
  EXPECT_EQ(second.at(8192 + 5000 - 4096), 0) << "which has none of its bytes";
  guard.Remove(*second_slot);
}

TEST(MappingGuardTest, WhoLosesMemoryThatIsNotMappedIsNamedToo) {
  MappingGuard& guard = MappingGuard::Get();
  guard.NoteLost(11);
  EXPECT_TRUE(IsReadable(guard.event_fd()));
  EXPECT_EQ(guard.TakeStruck(), std::vector<uint32_t>{11});
}

TEST(MappingGuardTest, ThreadsMayFaultAtOnce) {
  for (int round = 0; round < 50; ++round) {
    const ShrinkingFile shrinking(1);
    shrinking.Shrink();
    const auto read = [&shrinking] { return shrinking.at(100) + shrinking.at(9000); };
    std::thread other([&] { EXPECT_EQ(read(), 0); });
    EXPECT_EQ(read(), 0);
    other.join();
  }
  EXPECT_EQ(MappingGuard::Get().TakeStruck(), std::vector<uint32_t>{1});
}

TEST(MappingGuardTest, SlotsAreBoundedAndGivenAgain) {
  MappingGuard guard(2);
  char memory[3];
  const auto first = guard.Add(&memory[0], 1, 1);
  EXPECT_TRUE(first);
  EXPECT_TRUE(guard.Add(&memory[1], 1, 1));
  EXPECT_FALSE(guard.Add(&memory[2], 1, 1));
  guard.Remove(*first);
  EXPECT_TRUE(guard.Add(&memory[2], 1, 1));
}

TEST(MappingGuardTest, WhatIsNotGuardedIsNotTouched) {
  MappingGuard guard(2);
  char memory[2] = {'a', 'b'};
  const auto slot = guard.Add(&memory[0], 1, 1);
  EXPECT_FALSE(guard.Strike(&memory[1]));
  guard.Remove(*slot);
  EXPECT_FALSE(guard.Strike(&memory[0]));
  EXPECT_EQ(memory[0], 'a');
}

TEST(MappingGuardDeathTest, AFaultElsewhereStillEndsTheProcess) {
  const auto fault = [] {
    MappingGuard::Get();
    const Fd file(memfd_create("empty", 0));
    auto* bytes = static_cast<volatile char*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
    bytes[0] = 1;
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(fault(), "");
  EXPECT_DEATH(
      {
        MappingGuard::Get();
        raise(SIGBUS);
      },
      "");
}

}  // namespace
}  // namespace uroce::drivers
