// SPDX-License-Identifier: Apache-2.0
// Which READs may ask for data (pipeline/datapath/thread/scheduling.h).
#include "pipeline/datapath/thread/scheduling.h"

#include <gtest/gtest.h>

#include <array>

namespace uroce::datapath {
namespace {

constexpr uint64_t kRoom = 100'000;
constexpr Nanos kNow = ReadBudget::kPeriod * 5;

struct ReadBudgetTest : testing::Test {
  ReadShare* Grant(Nanos now = kNow) { return budget.Grant(now, granted); }

  ReadBudget budget{kRoom};
  ReadLine line;
  std::array<ReadShare, 3> shares;
  uint64_t granted = 0;
};

TEST_F(ReadBudgetTest, WithoutRoomThereIsNoBound) {
  EXPECT_FALSE(ReadBudget(0).is_bounded());
  EXPECT_TRUE(budget.is_bounded());
  EXPECT_EQ(budget.NextDeadline(), kNever);
  EXPECT_EQ(Grant(), nullptr);
}

TEST_F(ReadBudgetTest, ReadsWaitUntilThereIsRoom) {
  for (ReadShare& share : shares) budget.Wait(line, share, 40'000);
  EXPECT_EQ(Grant(), &shares[0]);
  EXPECT_EQ(granted, 40'000u);
  EXPECT_FALSE(ReadBudget::IsWaiting(shares[0]));
  EXPECT_EQ(Grant(), &shares[1]);
  EXPECT_EQ(Grant(), nullptr);
  EXPECT_EQ(budget.asked_bytes(), 80'000u);
  budget.Shrink(shares[0], 20'000, kNow);
  EXPECT_EQ(Grant(), &shares[2]);
  EXPECT_EQ(budget.asked_bytes(), kRoom);
  EXPECT_FALSE(budget.has_line());
}

TEST_F(ReadBudgetTest, AReadLargerThanTheRoomGoesAlone) {
  budget.Wait(line, shares[0], 1000);
  EXPECT_EQ(Grant(), &shares[0]);
  budget.Shrink(shares[0], 1000, kNow);
  budget.Wait(line, shares[1], uint64_t{1} << 33);
  budget.Wait(line, shares[2], 1000);
  EXPECT_EQ(Grant(), nullptr);
  budget.Shrink(shares[0], 0, kNow);
  EXPECT_EQ(Grant(), &shares[1]);
  EXPECT_EQ(granted, uint64_t{1} << 33);
  EXPECT_EQ(Grant(), nullptr);
  budget.Shrink(shares[1], 0, kNow);
  EXPECT_EQ(Grant(), &shares[2]);
}

TEST_F(ReadBudgetTest, WhoIsAloneMayAskForMore) {
  budget.Wait(line, shares[0], 1000);
  EXPECT_EQ(Grant(), &shares[0]);
  EXPECT_EQ(granted, ReadBudget::kSpareBytes);
  budget.Wait(line, shares[1], 90'000);
  EXPECT_EQ(Grant(), nullptr);
  // What is not used is free again.
  budget.Shrink(shares[0], 1000, kNow);
  EXPECT_EQ(Grant(), &shares[1]);
  budget.Wait(line, shares[2], 1000);
  EXPECT_EQ(Grant(), &shares[2]);
  EXPECT_EQ(granted, 9000u);
}

TEST_F(ReadBudgetTest, WhoLeavesTheLineGetsNothing) {
  budget.Wait(line, shares[0], 1000);
  budget.Wait(line, shares[1], 1000);
  budget.Leave(line, shares[0]);
  budget.Leave(line, shares[0]);
  EXPECT_EQ(Grant(), &shares[1]);
  budget.Wait(line, shares[2], 1000);
  budget.Leave(line, shares[2]);
  EXPECT_FALSE(budget.has_line());
  EXPECT_EQ(Grant(), nullptr);
}

// A peer that has gone delays no other peer, and bytes that are answered later are not counted
// twice.
TEST_F(ReadBudgetTest, ResponsesThatDoNotComeAreForgotten) {
  budget.Wait(line, shares[0], kRoom);
  EXPECT_EQ(Grant(), &shares[0]);
  budget.Wait(line, shares[1], kRoom);
  EXPECT_EQ(Grant(), nullptr);
  EXPECT_EQ(budget.NextDeadline(), kNow + ReadBudget::kPeriod);
  EXPECT_EQ(Grant(kNow + ReadBudget::kPeriod), nullptr);
  EXPECT_EQ(budget.NextDeadline(), kNow + ReadBudget::kPeriod * 2);
  EXPECT_EQ(Grant(kNow + ReadBudget::kPeriod * 2), &shares[1]);
  budget.Shrink(shares[0], 10, kNow + ReadBudget::kPeriod * 2);
  EXPECT_EQ(budget.asked_bytes(), kRoom);
  EXPECT_EQ(Grant(kNow + ReadBudget::kPeriod * 9), nullptr);
  EXPECT_EQ(budget.asked_bytes(), kRoom);  // No queue pair waits, so Grant does not look.
  budget.Shrink(shares[1], 10, kNow + ReadBudget::kPeriod * 9);
  EXPECT_EQ(budget.asked_bytes(), 0u);
}

// Who goes on reading is not forgotten while responses come.
TEST_F(ReadBudgetTest, ANewReadCountsWithWhatWasAskedForBefore) {
  budget.Wait(line, shares[0], 50'000);
  EXPECT_EQ(Grant(), &shares[0]);
  const Nanos later = kNow + ReadBudget::kPeriod;
  budget.Wait(line, shares[0], 30'000);
  EXPECT_EQ(Grant(later), &shares[0]);
  EXPECT_EQ(budget.asked_bytes(), 50'000 + ReadBudget::kSpareBytes);
  budget.Shrink(shares[0], 70'000, later + ReadBudget::kPeriod);
  EXPECT_EQ(budget.asked_bytes(), 70'000u);
  budget.Shrink(shares[0], 0, later + ReadBudget::kPeriod);
  EXPECT_EQ(budget.asked_bytes(), 0u);
}

// Programs share the room by bytes, however many queue pairs and however long READs they have.
TEST_F(ReadBudgetTest, ProgramsShareByBytes) {
  ReadLine other;
  std::array<uint64_t, 3> bytes{};
  const std::array<uint64_t, 3> wanted = {4000, 4000, 30'000};
  for (int i = 0; i < 2000; ++i) {
    for (size_t at = 0; at < shares.size(); ++at) {
      if (!ReadBudget::IsWaiting(shares[at])) {
        budget.Wait(at == 2 ? other : line, shares[at], wanted[at]);
      }
    }
    ReadShare* const share = Grant();
    ASSERT_NE(share, nullptr);
    bytes[static_cast<size_t>(share - shares.data())] += granted;
    budget.Shrink(*share, 0, kNow);
  }
  const auto ratio = [&](uint64_t a, uint64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  };
  EXPECT_NEAR(ratio(bytes[0] + bytes[1], bytes[2]), 1, 0.1);
  EXPECT_NEAR(ratio(bytes[0], bytes[1]), 1, 0.1);
}

}  // namespace
}  // namespace uroce::datapath
