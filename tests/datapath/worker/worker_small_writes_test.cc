// SPDX-License-Identifier: Apache-2.0
// Small WRITEs to memory that only the helper reaches: one copy job serves many of them.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"
#include "tests/datapath/worker/copied_memory.h"

namespace uroce::datapath {
namespace {

/// Many small WRITEs of one queue pair to places of copied memory, some of which meet. What they
/// leave is what they would leave one after the other.
class WorkerSmallWritesTest : public WorkerCopiesTest {
 protected:
  static constexpr uint32_t kWrites = 512;
  static constexpr uint32_t kDepth = 64;
  static constexpr uint32_t kArea = 4096;

  explicit WorkerSmallWritesTest(bool by_workers = false) : WorkerCopiesTest(by_workers) {}

  struct Small {
    uint32_t from;
    uint32_t to;
    uint32_t length;
  };
  static std::vector<Small> RandomWrites() {
    std::minstd_rand random(7);
    std::vector<Small> writes(kWrites);
    for (Small& each : writes) {
      const auto next = [&random] { return static_cast<uint32_t>(random()); };
      each = {next() % 50'000, next() % (kArea - 100), 1 + next() % 100};
    }
    return writes;
  }
  static void Post(Endpoint& endpoint, const MemoryRegion& from, const MemoryRegion& to,
                   const Small& write, uint64_t id) {
    endpoint.PostSend({.opcode = kWrite,
                       .wr_id = id,
                       .list = {Testbed::Sge(from, write.from, write.length)},
                       .remote_addr = to.iova + write.to,
                       .rkey = to.key});
  }
  void WriteAll() {
    auto [a, b] = bed_.AddPair();
    const std::vector<Small> writes = RandomWrites();
    std::vector<uint8_t> expected = target_;
    uint32_t posted = 0;
    for (uint32_t done = 0; done < kWrites; ++done) {
      for (; posted < kWrites && posted < done + kDepth; ++posted) {
        const Small& write = writes[posted];
        Post(*a, from_, copied_, write, posted);
        std::copy_n(source_.begin() + write.from, write.length, expected.begin() + write.to);
      }
      uroce_cqe cqe;
      ASSERT_TRUE(bed_.RunUntil([&] { return a->PollSend(cqe); }));
      EXPECT_EQ(cqe.status, 0);
      EXPECT_EQ(cqe.wr_id, done);
    }
    EXPECT_EQ(target_, expected);
  }
};

TEST_F(WorkerSmallWritesTest, OneJobServesManyMessages) {
  WriteAll();
  EXPECT_LT(bed_.session->copies_begun(), kWrites / 4);
}

TEST_F(WorkerSmallWritesTest, LostPacketsArePlacedAgainAndInOrder) {
  bed_.LoseOneOf(13);
  WriteAll();
}

TEST_F(WorkerSmallWritesTest, OneJobServesMessagesOfManyPackets) {
  constexpr uint32_t kMessages = 64;
  constexpr uint32_t kBytesOfEach = 2500;
  auto [a, b] = bed_.AddPair();
  for (uint32_t i = 0; i < kMessages; ++i) {
    Post(*a, from_, copied_, {i * kBytesOfEach, i * kBytesOfEach, kBytesOfEach}, i);
  }
  for (uint32_t i = 0; i < kMessages; ++i) {
    uroce_cqe cqe;
    ASSERT_TRUE(bed_.RunUntil([&] { return a->PollSend(cqe); }));
    EXPECT_EQ(cqe.status, 0);
  }
  const auto end = source_.begin() + kMessages * kBytesOfEach;
  EXPECT_TRUE(std::equal(source_.begin(), end, target_.begin()));
  EXPECT_LT(bed_.session->copies_begun(), kMessages / 2);
}

// Its first packet lies in the region.
TEST_F(WorkerSmallWritesTest, NothingIsPlacedOfAMessageThatEndsOutsideOfItsRegion) {
  constexpr uint32_t kRegion = 8192;
  constexpr uint32_t kBytesOfEach = 2000;
  std::vector<uint8_t> span(kRegion);
  const MemoryRegion& region = bed_.Register(span.data(), kRegion, kAllAccess, MrMode::kCopied);
  auto [a, b] = bed_.AddPair();
  Post(*a, from_, region, {0, 0, kBytesOfEach}, 0);
  Post(*a, from_, region, {0, kRegion - 1500, kBytesOfEach}, 1);
  for (const uint32_t expected : {0, 10}) {
    uroce_cqe cqe;
    ASSERT_TRUE(bed_.RunUntil([&] { return a->PollSend(cqe); }));
    EXPECT_EQ(cqe.status, expected) << "IBV_WC_REM_ACCESS_ERR";
  }
  EXPECT_TRUE(std::equal(span.begin(), span.begin() + kBytesOfEach, source_.begin()));
  EXPECT_TRUE(
      std::all_of(span.begin() + kBytesOfEach, span.end(), [](uint8_t byte) { return byte == 0; }));
}

// The later ones never happen.
TEST_F(WorkerSmallWritesTest, NothingIsPlacedBehindAMessageThatIsRefused) {
  constexpr uint32_t kRefused = 5;
  for (const bool by_key : {true, false}) {
    void* span = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(span, MAP_FAILED);
    MemoryRegion& holed = bed_.Register(span, 8192, kAllAccess, MrMode::kCopied);
    ASSERT_EQ(munmap(static_cast<uint8_t*>(span) + 4096, 4096), 0);
    auto [a, b] = bed_.AddPair();
    MemoryRegion strange = holed;
    strange.key += 1;
    for (uint32_t i = 0; i < 2 * kRefused; ++i) {
      const bool is_refused = i == kRefused;
      const MemoryRegion& to = is_refused && by_key ? strange : holed;
      Post(*a, from_, to, {i * 64, is_refused && !by_key ? 4096 : i * 64, 64}, i);
    }
    for (uint32_t i = 0; i < 2 * kRefused; ++i) {
      uroce_cqe cqe;
      ASSERT_TRUE(bed_.RunUntil([&] { return a->PollSend(cqe); }));
      const uint32_t expected = i < kRefused ? 0 : i == kRefused ? 10 : 5;
      EXPECT_EQ(cqe.status, expected) << "IBV_WC_REM_ACCESS_ERR, then IBV_WC_WR_FLUSH_ERR";
    }
    EXPECT_EQ(memcmp(span, source_.data(), kRefused * 64), 0);
    const auto* const behind = static_cast<const uint8_t*>(span) + kRefused * 64;
    EXPECT_TRUE(
        std::all_of(behind, behind + kRefused * 64, [](uint8_t byte) { return byte == 0; }));
    munmap(span, 4096);
  }
}

}  // namespace
}  // namespace uroce::datapath
