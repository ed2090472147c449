// SPDX-License-Identifier: Apache-2.0
// Handles, random numbers, the arena, queue sizes, one-way sockets.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <random>
#include <set>

#include "nic/base/allocators.h"
#include "nic/base/cpus.h"
#include "nic/devices/verbs_attributes.h"
#include "nic/objects/resources.h"
#include "nic/settings/config.h"
#include "pipeline/base/types.h"
#include "pipeline/os/credentials.h"
#include "pipeline/os/shared_memory.h"
#include "pipeline/os/unix_socket.h"

namespace uroce::nic {
namespace {

TEST(HandleTableTest, AStaleHandleFindsNothing) {
  HandleTable<int> table("pd", 1000);
  const uint32_t first = *table.Add(std::make_unique<int>(1));
  table.Remove(first);
  const uint32_t second = *table.Add(std::make_unique<int>(2));
  EXPECT_NE(first, second);
  EXPECT_FALSE(table.Find(first).ok());
  EXPECT_EQ(**table.Find(second), 2);
  EXPECT_FALSE(table.Find(0xffffffff).ok());
}

TEST(HandleTableTest, TheLimitHoldsAndHandlesStayBelowIt) {
  HandleTable<int> table("pd", 3);
  for (int round = 0; round < 10; ++round) {
    std::set<uint32_t> handles;
    for (int i = 0; i < 3; ++i) handles.insert(*table.Add(std::make_unique<int>(i)));
    EXPECT_EQ(handles, (std::set<uint32_t>{0, 1, 2}));
    EXPECT_TRUE(absl::IsResourceExhausted(table.Add(std::make_unique<int>(9)).status()));
    for (const uint32_t handle : handles) table.Remove(handle);
  }
  EXPECT_EQ(table.count(), 0u);
}

uint32_t small_space = 0;
uint32_t Counting() { return small_space++; }

TEST(NumberPoolTest, ReservedNumbersAreNeverGivenOut) {
  small_space = 0;
  NumberPool pool(4, 0, Counting);
  std::set<uint32_t> seen;
  while (const uint32_t number = pool.Take(Nanos(0))) seen.insert(number);
  EXPECT_EQ(seen, (std::set<uint32_t>{2, 3, 4, 5, 6, 7, 8, 9})) << "half of the 16, none reserved";
}

TEST(NumberPoolTest, AFreedNumberRestsForSixtySeconds) {
  small_space = 2;
  NumberPool pool(24, 0, Counting);
  const uint32_t number = pool.Take(Nanos(0));
  pool.Release(number, Nanos(1'000));
  EXPECT_EQ(pool.held(), 0u);
  small_space = number;
  EXPECT_NE(pool.Take(Nanos(60'000'000'999)), number);
  small_space = number;
  EXPECT_EQ(pool.Take(Nanos(60'000'001'000)), number);
}

TEST(NumberPoolTest, KeysOfOneIndexAreOneWhateverTheirVariant) {
  small_space = 0x12345600;
  NumberPool keys(32, 8, Counting);
  EXPECT_EQ(keys.Take(Nanos(0)), 0x12345600u);
  EXPECT_EQ(keys.Take(Nanos(0)), 0x12345700u) << "the other 255 variants belong to the holder";
}

TEST(NumberPoolTest, ANumberLiesInTheRangeAskedForAndAFullRangeHasNone) {
  small_space = 0;
  NumberPool pool(8, 0, Counting);
  std::set<uint32_t> seen;
  while (const uint32_t number = pool.Take(Nanos(0), {.first = 64, .end = 128})) {
    EXPECT_GE(number, 64u);
    EXPECT_LT(number, 128u);
    seen.insert(number);
  }
  EXPECT_EQ(seen.size(), 64u);
  EXPECT_NE(pool.Take(Nanos(0), {.first = 0, .end = 64}), 0u);
}

TEST(SteeringTest, EachWorkerOwnsOneRangeAndAllNumbersHaveAnOwner) {
  for (const uint32_t workers : {1u, 2u, 3u, 7u, 64u}) {
    EXPECT_EQ(FirstQpnOf(0, workers), 0u);
    EXPECT_EQ(FirstQpnOf(workers, workers), 1u << 24);
    for (uint32_t worker = 0; worker < workers; ++worker) {
      EXPECT_EQ(OwnerOf(Qpn(FirstQpnOf(worker, workers)), workers), worker);
      EXPECT_EQ(OwnerOf(Qpn(FirstQpnOf(worker + 1, workers) - 1), workers), worker);
    }
  }
}

TEST(WorkerCoresTest, SeveralHaveACoreEachWhereOneIsLeftForPrograms) {
  EXPECT_EQ(WorkerCores(1, {0, 1, 2}), (std::vector<int>{-1}));
  EXPECT_EQ(WorkerCores(2, {4, 6, 7}), (std::vector<int>{4, 6}));
  EXPECT_EQ(WorkerCores(3, {4, 6, 7}), (std::vector<int>{-1, -1, -1}));
  EXPECT_EQ(WorkerCores(2, {}), (std::vector<int>{-1, -1}));
}

TEST(WorkerCoresTest, ACoreHasANodeWhereTheKernelSaysSo) {
  EXPECT_EQ(NumaNodeOf(-1), -1);
  EXPECT_GE(NumaNodeOf(AllowedCores().front()), -1);
}

TEST(NumberPoolTest, SecureNumbersDoNotRepeat) {
  NumberPool qpns(24, 0);
  std::set<uint32_t> seen;
  for (int i = 0; i < 20'000; ++i) {
    const uint32_t qpn = qpns.Take(Nanos(0));
    EXPECT_GT(qpn, 1u);
    EXPECT_LT(qpn, 0xffffffu);
    EXPECT_TRUE(seen.insert(qpn).second);
  }
}

// ReDMArk V1, V5: adapters give numbers out in steps that an attacker learns from a few of them.
TEST(NumberPoolTest, NumbersDoNotFollowFromThoseBefore) {
  constexpr int kCount = 100'000;
  constexpr uint32_t kMask = 0xffffffff;
  NumberPool keys(32, 8);
  std::map<uint32_t, int> steps;
  int bits[32] = {};
  uint32_t last = keys.Take(Nanos(0));
  for (int i = 0; i < kCount; ++i) {
    const uint32_t key = keys.Take(Nanos(0));
    ++steps[(key - last) & kMask];
    for (int bit = 0; bit < 32; ++bit) bits[bit] += static_cast<int>(key >> bit & 1);
    last = key;
  }
  // Six standard deviations of a fair coin: 160 * 6. Of 2^32 steps some three come twice.
  for (const int ones : bits) EXPECT_NEAR(ones, kCount / 2, 960);
  EXPECT_GT(steps.size(), size_t{kCount} - 30);
}

// ReDMArk V2, V3: a generator that always begins alike, or that programs share and can step.
TEST(NumberPoolTest, PoolsHaveNothingInCommon) {
  NumberPool first(24, 0);
  NumberPool second(24, 0);
  std::set<uint32_t> numbers;
  for (int i = 0; i < 1000; ++i) numbers.insert(first.Take(Nanos(0)));
  int common = 0;
  for (int i = 0; i < 1000; ++i) common += numbers.contains(second.Take(Nanos(0))) ? 1 : 0;
  EXPECT_LT(common, 5) << "one in sixteen runs has one";
}

TEST(ExtentsTest, RandomTakesNeverOverlapAndAllComesBack) {
  constexpr uint64_t kBegin = 8192, kEnd = kBegin + (1 << 20), kGrain = 4096;
  Extents extents(kBegin, kEnd, kGrain);
  std::mt19937 random(7);
  std::vector<std::pair<uint64_t, uint64_t>> held;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 2 == 0) {
      const uint64_t length = 1 + random() % 30'000;
      const std::optional<uint64_t> offset = extents.Take(length);
      if (!offset) continue;
      EXPECT_GE(*offset, kBegin);
      EXPECT_LE(*offset + length, kEnd);
      EXPECT_EQ(*offset % kGrain, 0u);
      for (const auto& [other, size] : held) {
        EXPECT_TRUE(*offset + length <= other || other + size <= *offset);
      }
      held.emplace_back(*offset, length);
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      extents.Give(held.back().first, held.back().second);
      held.pop_back();
    }
  }
  for (const auto& [offset, length] : held) extents.Give(offset, length);
  EXPECT_EQ(extents.free_bytes(), kEnd - kBegin);
  EXPECT_EQ(extents.Take(kEnd - kBegin), kBegin) << "one range again";
  EXPECT_FALSE(extents.Take(1));
  EXPECT_FALSE(extents.Take(0));
}

TEST(ArenaTest, AFreedRangeStartsAsZerosAgain) {
  absl::StatusOr<Arena> arena = Arena::Make(1);
  ASSERT_TRUE(arena.ok()) << arena.status();
  const uint64_t first = *arena->Take(10'000);
  std::fill_n(arena->At<uint8_t>(first), 10'000, 0xee);
  arena->Give(first, 10'000);
  EXPECT_NE(*arena->Take(10'000), first) << "it has pages still";
  const Arena::Returned returned = arena->TakeReturned();
  returned.Clear();
  arena->Reuse(returned);
  const uint64_t second = *arena->Take(12'000);
  EXPECT_EQ(second, first);
  EXPECT_TRUE(std::all_of(arena->At<uint8_t>(second), arena->At<uint8_t>(second) + 12'000,
                          [](uint8_t byte) { return byte == 0; }));
}

// The kernel keeps the pages until the arena ends.
TEST(ArenaTest, WhatWasEverTakenCounts) {
  constexpr uint64_t kMb = 1 << 20;
  Quota quota{.uid = 1, .limit = 80 * kMb, .flag = "--max-queue-bytes-per-user"};
  {
    absl::StatusOr<Arena> arena = Arena::Make(1, &quota);
    ASSERT_TRUE(arena.ok()) << arena.status();
    const uint64_t small = *arena->Take(4096);
    EXPECT_FALSE(arena->MustClear());
    arena->Give(small, 4096);
    EXPECT_FALSE(arena->MustClear()) << "a page may wait";
    const uint64_t large = *arena->Take(2 * kMb);
    arena->Give(large, 2 * kMb);
    EXPECT_TRUE(arena->MustClear());
    arena->Reuse(arena->TakeReturned());
    EXPECT_FALSE(arena->MustClear());
    EXPECT_EQ(quota.used, 2 * kMb + 4096);
    EXPECT_EQ(*arena->Take(2 * kMb), small);
    EXPECT_EQ(quota.used, 2 * kMb + 4096) << "the same pages";
    EXPECT_FALSE(arena->Take(79 * kMb).ok());
    const uint64_t most = *arena->Take(60 * kMb);
    EXPECT_EQ(quota.used, 62 * kMb);
    arena->Give(most, 60 * kMb);
    EXPECT_TRUE(arena->MustClear()) << "little is left";
  }
  EXPECT_EQ(quota.used, 0u);
}

TEST(ArenaTest, ClearingMakesNoPages) {
  constexpr uint64_t kBytes = 64 << 20;
  absl::StatusOr<Arena> arena = Arena::Make(1);
  ASSERT_TRUE(arena.ok()) << arena.status();
  const uint64_t start = *arena->Take(kBytes);
  for (const uint64_t at : {kPageBytes, uint64_t{5'000'000}, kBytes - 1}) {
    *arena->At<uint8_t>(start + at) = 1;
  }
  struct stat before {
  }, after{};
  fstat(arena->fd(), &before);
  arena->Give(start, kBytes);
  arena->TakeReturned().Clear();
  fstat(arena->fd(), &after);
  EXPECT_EQ(after.st_blocks, before.st_blocks);
  for (const uint64_t at : {kPageBytes, uint64_t{5'000'000}, kBytes - 1}) {
    EXPECT_EQ(*arena->At<uint8_t>(start + at), 0) << at;
  }
}

// A worker that touches the page would wait for this.
TEST(ArenaTest, ProgramsCannotFreeItsPages) {
  if (!HasCapability(CAP_LINUX_IMMUTABLE)) GTEST_SKIP() << "no CAP_LINUX_IMMUTABLE";
  absl::StatusOr<Arena> arena = Arena::Make(1);
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_NE(fallocate(arena->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPageBytes), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(madvise(arena->At<void>(0), kPageBytes, MADV_REMOVE), 0);
  EXPECT_EQ(arena->At<uroce_arena_header>(0)->abi_version, UROCE_ABI_VERSION);
  void* const its = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena->fd(), 0);
  ASSERT_NE(its, MAP_FAILED) << "the program can map it";
  munmap(its, kPageBytes);
}

TEST(ArenaTest, QueuesLieBehindTheDoorbells) {
  absl::StatusOr<Arena> arena = Arena::Make(3);
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_GE(*arena->Take(1), UROCE_DOORBELLS_OFFSET + 3 * sizeof(uroce_doorbells));
  EXPECT_EQ(arena->At<uroce_arena_header>(0)->worker_count, 3u);
}

TEST(ArenaTest, ProgramsCannotShrinkTheFile) {
  absl::StatusOr<Arena> arena = Arena::Make(1);
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_NE(ftruncate(arena->fd(), 4096), 0);
  EXPECT_EQ(fcntl(arena->fd(), F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

// The kernel raises SIGBUS where it has no memory for a page of a file.
TEST(ArenaTest, APageThatCannotBeMadeEndsItsProgramAlone) {
  constexpr uint32_t kOwner = 77;
  absl::StatusOr<Arena> arena = Arena::Make(1, nullptr, nullptr, kOwner);
  ASSERT_TRUE(arena.ok()) << arena.status();
  const uint64_t offset = arena->Take(kPageBytes).value();
  auto* const word = arena->At<uint32_t>(offset);
  EXPECT_TRUE(MappingGuard::Get().Strike(word));
  *word = 5;
  EXPECT_EQ(*word, 5u);
  EXPECT_EQ(MappingGuard::Get().TakeStruck(), std::vector<uint32_t>{kOwner});
}

TEST(ArenaTest, TooLargeARangeIsRefused) {
  absl::StatusOr<Arena> arena = Arena::Make(1);
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_TRUE(absl::IsResourceExhausted(arena->Take(UROCE_ARENA_BYTES).status()));
}

TEST(SharedMemoryTest, AConstantFileCannotBeChanged) {
  absl::StatusOr<Fd> fd = MakeConstantFile("test", "hello", 5);
  ASSERT_TRUE(fd.ok()) << fd.status();
  char text[8] = {};
  EXPECT_EQ(pread(fd->get(), text, sizeof(text), 0), 5);
  EXPECT_STREQ(text, "hello");
  EXPECT_LT(pwrite(fd->get(), "x", 1, 0), 0);
}

TEST(QueueLayoutTest, OneSgeAndNoInlineIsOneLineASlot) {
  const auto layout = LayOutQueuePair({128, 128, 1, 1, 0}, Limits{});
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->sq_slot_bytes, 64u);
  EXPECT_EQ(layout->rq_slot_bytes, 32u);
  EXPECT_LE(layout->length_bytes, 25u << 10);
}

TEST(QueueLayoutTest, GrantsAreNeverBelowWishesAndSlotsHoldThem) {
  for (const uint32_t wr : {1u, 3u, 128u, 1000u, 32768u}) {
    for (const uint32_t sge : {0u, 1u, 2u, 7u, 32u}) {
      for (const uint32_t inline_bytes : {0u, 1u, 16u, 64u, 512u}) {
        const auto layout = LayOutQueuePair({wr, wr, sge, sge, inline_bytes}, Limits{});
        ASSERT_TRUE(layout.ok());
        EXPECT_GE(layout->granted.max_send_wr, wr);
        EXPECT_GE(layout->granted.max_recv_wr, wr);
        EXPECT_EQ(layout->granted.max_send_wr, layout->sq_depth);
        EXPECT_GE(layout->granted.max_inline_data,
                  std::max(inline_bytes, std::min(16 * sge, UROCE_MAX_INLINE)));
        EXPECT_LE(layout->granted.max_inline_data, UROCE_MAX_INLINE);
        EXPECT_GE(layout->sq_slot_bytes, 48 + std::max(16 * sge, layout->granted.max_inline_data));
        EXPECT_GE(layout->rq_slot_bytes, 16 + 16 * sge);
        EXPECT_EQ(layout->sq_offset % 64, 0u);
        EXPECT_EQ(layout->rq_offset % 64, 0u);
      }
    }
  }
}

TEST(QueueLayoutTest, EachCapAboveItsLimitIsRefused) {
  const Limits limits;
  EXPECT_FALSE(LayOutQueuePair({limits.qp_wr + 1, 1, 1, 1, 0}, limits).ok());
  EXPECT_FALSE(LayOutQueuePair({1, limits.qp_wr + 1, 1, 1, 0}, limits).ok());
  EXPECT_FALSE(LayOutQueuePair({1, 1, UROCE_MAX_SGE + 1, 1, 0}, limits).ok());
  EXPECT_FALSE(LayOutQueuePair({1, 1, 1, UROCE_MAX_SGE + 1, 0}, limits).ok());
  EXPECT_FALSE(LayOutQueuePair({1, 1, 1, 1, UROCE_MAX_INLINE + 1}, limits).ok());
}

// Source: docs/protocol/verbs-semantics.md, section 6; Linux's software RoCE keeps one slot
// free of a power of two above what was asked.
TEST(QueueLayoutTest, EachQueueHoldsWhatSoftRoceGrants) {
  for (const uint32_t wanted : {1u, 2u, 3u, 100u, 127u, 128u, 1000u, 1023u, 1024u, 16384u}) {
    const uint32_t theirs = std::bit_ceil(wanted + 1) - 1;
    const auto pair = LayOutQueuePair({wanted, wanted, 1, 1, 0}, Limits{});
    EXPECT_GE(pair->granted.max_send_wr, theirs);
    EXPECT_GE(pair->granted.max_recv_wr, theirs);
    EXPECT_EQ(pair->granted.max_recv_wr, pair->rq_depth) << "all of it holds";
    EXPECT_GE(LayOutReceiveRing("srq", wanted, 1, Limits{})->depth, theirs);
    EXPECT_GE(CompletionQueueDepth(wanted, Limits{}).value(), theirs);
  }
}

TEST(QueueLayoutTest, NothingIsGrantedAboveTheLimits) {
  const Limits limits;
  const auto pair = LayOutQueuePair({limits.qp_wr, limits.qp_wr - 1, 1, 1, 0}, limits);
  EXPECT_EQ(pair->granted.max_send_wr, limits.qp_wr);
  EXPECT_EQ(pair->granted.max_recv_wr, limits.qp_wr);
  EXPECT_EQ(LayOutReceiveRing("srq", limits.qp_wr, 1, limits)->depth, limits.qp_wr);
  EXPECT_EQ(CompletionQueueDepth(limits.cqe, limits).value(), limits.cqe);
}

TEST(QueueLayoutTest, ALimitBetweenTwoPowersOfTwoIsTheGreaterOne) {
  Limits limits;
  limits.qp_wr = 1000;
  EXPECT_EQ(LayOutQueuePair({600, 1024, 1, 1, 0}, limits)->granted.max_send_wr, 1024u);
  EXPECT_FALSE(LayOutQueuePair({1025, 1, 1, 1, 0}, limits).ok());
}

TEST(QueueLayoutTest, AQueueThatWasNotAskedForHasNoEntries) {
  const auto pair = LayOutQueuePair({0, 0, 1, 1, 0}, Limits{});
  EXPECT_EQ(pair->sq_depth, 0u);
  EXPECT_EQ(pair->granted.max_recv_wr, 0u);
}

TEST(QueueLayoutTest, CompletionQueueDepthIsAPowerOfTwoAbove) {
  EXPECT_EQ(CompletionQueueDepth(1, Limits{}).value(), 2u);
  EXPECT_EQ(CompletionQueueDepth(200'000, Limits{}).value(), 262'144u);
  EXPECT_FALSE(CompletionQueueDepth(0, Limits{}).ok());
  EXPECT_FALSE(CompletionQueueDepth(Limits{}.cqe + 1, Limits{}).ok());
}

/// One record, as workers send it.
bool Send(const Fd& writer) {
  const uroce_event_record record{7, UROCE_EVENT_COMPLETION, 0};
  return send(writer.get(), &record, sizeof(record), MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

TEST(OneWaySocketTest, AFullOneRefusesRatherThanBlocks) {
  Fd reader;
  absl::StatusOr<Fd> writer = MakeOneWaySocket(reader);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ(fcntl(reader.get(), F_GETFL) & O_NONBLOCK, 0) << "the program's flags are its own";
  uint32_t sent = 0;
  while (Send(*writer)) ++sent;
  EXPECT_GE(sent, 128u);
  uroce_event_record record{};
  for (; sent != 0; --sent) {
    ASSERT_EQ(read(reader.get(), &record, sizeof(record)), ssize_t{sizeof(record)});
    EXPECT_EQ(record.element, 7u);
  }
  EXPECT_TRUE(Send(*writer));
}

TEST(OneWaySocketTest, ASmallOneHoldsLess) {
  Fd reader;
  const absl::StatusOr<Fd> writer = MakeOneWaySocket(reader, 8 << 10);
  ASSERT_TRUE(writer.ok()) << writer.status();
  uint32_t sent = 0;
  while (Send(*writer)) ++sent;
  EXPECT_GE(sent, 8u);
  EXPECT_LT(sent, 64u);
}

TEST(OneWaySocketTest, WhatIsReadOrClosedIsNotUnread) {
  Fd reader;
  const absl::StatusOr<Fd> writer = MakeOneWaySocket(reader);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_FALSE(HasUnread(writer->get()));
  EXPECT_TRUE(Send(*writer));
  EXPECT_TRUE(HasUnread(writer->get()));
  uroce_event_record record{};
  EXPECT_EQ(read(reader.get(), &record, sizeof(record)), ssize_t{sizeof(record)});
  EXPECT_FALSE(HasUnread(writer->get()));
  EXPECT_TRUE(Send(*writer));
  reader = {};
  EXPECT_FALSE(HasUnread(writer->get()));
}

// The kernel counts more for a small record than its bytes.
TEST(UserSocketTest, RecordsThatNoProgramReadsTakeNoMoreMemoryThanTheyCountFor) {
  const Limits limits;
  Pools pools(limits, 1000, uint64_t{1} << 40);
  UserAccount user(1, limits, pools, /*copies_others=*/false);
  Fd reader;
  const absl::StatusOr<UserSocket> socket =
      UserSocket::Make("channel", UserSocket::Holds::kRecords, user, reader);
  ASSERT_TRUE(socket.ok()) << socket.status();
  const Fd writer(dup(socket->get()));
  while (Send(writer)) continue;
  int unread_bytes = 0;
  ASSERT_EQ(ioctl(writer.get(), SIOCOUTQ, &unread_bytes), 0);
  EXPECT_GT(unread_bytes, 0);
  EXPECT_LE(static_cast<uint64_t>(unread_bytes), user.own_bytes.used);
}

TEST(OneWaySocketTest, TheProgramCannotSend) {
  Fd reader;
  const absl::StatusOr<Fd> writer = MakeOneWaySocket(reader);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_LT(send(reader.get(), "x", 1, MSG_NOSIGNAL), 0);
  EXPECT_EQ(errno, EPIPE);
}

}  // namespace
}  // namespace uroce::nic
