// SPDX-License-Identifier: Apache-2.0
// Which worker needs help, which one can give it, and which connection moves.
#include "nic/objects/balance.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace uroce::nic {
namespace {

constexpr uint32_t kCpus = 4;

std::optional<WorkerMove> Find(const std::vector<double>& busy, uint32_t cpus = kCpus) {
  return FindImbalance(busy, cpus);
}
std::vector<size_t> Rank(const std::vector<double>& costs, double from, double to) {
  return RankMoves(costs, from, to);
}

TEST(FindImbalanceTest, TheBusiestWorkerIsHelpedByTheIdlestOne) {
  EXPECT_EQ(Find({0.2, 0.95, 0.05, 0.4}), (WorkerMove{.from = 1, .to = 2}));
  EXPECT_EQ(Find({1.0, 0.0}), (WorkerMove{.from = 0, .to = 1}));
}

TEST(FindImbalanceTest, AWorkerWithTimeLeftNeedsNoHelp) {
  EXPECT_EQ(Find({0.7, 0.0}), std::nullopt);
  EXPECT_EQ(Find({}), std::nullopt);
  EXPECT_EQ(Find({1.0}), std::nullopt) << "there is no other one";
}

TEST(FindImbalanceTest, WorkersThatAreBusyThemselvesGiveNone) {
  EXPECT_EQ(Find({1.0, 0.6}), std::nullopt);
  EXPECT_EQ(Find({1.0, 1.0}), std::nullopt);
}

TEST(FindImbalanceTest, WithoutAFreeCpuNoWorkerIsHelped) {
  EXPECT_EQ(Find({1.0, 0.9, 0.1}, 2), std::nullopt);
  EXPECT_EQ(Find({1.0, 0.9, 0.1}, 3), (WorkerMove{.from = 0, .to = 2}));
  EXPECT_EQ(Find({1.0, 0.0}, 1), std::nullopt);
}

TEST(RankMovesTest, TheMostEvenSplitComesFirst) {
  EXPECT_EQ(Rank({1, 5, 4}, 1.0, 0.0), (std::vector<size_t>{1, 2}));
  EXPECT_EQ(Rank({3, 3}, 1.0, 0.0).size(), 2u);
}

TEST(RankMovesTest, AConnectionAloneStays) {
  EXPECT_TRUE(Rank({7}, 1.0, 0.0).empty()) << "the other worker would be as busy";
  EXPECT_TRUE(Rank({7, 0, 0}, 1.0, 0.0).empty()) << "those beside it do nothing";
  EXPECT_TRUE(Rank({100, 1}, 1.0, 0.0).empty()) << "nor is a small one worth it";
}

TEST(RankMovesTest, WhatTheOtherWorkerDoesAlreadyCounts) {
  EXPECT_EQ(Rank({1, 1}, 1.0, 0.0).size(), 2u);
  EXPECT_TRUE(Rank({1, 1}, 1.0, 0.45).empty());
  EXPECT_EQ(Rank({1, 1, 2}, 1.0, 0.45), (std::vector<size_t>{0, 1}));
}

TEST(RankMovesTest, NothingComesOfNothing) {
  EXPECT_TRUE(Rank({}, 1.0, 0.0).empty());
  EXPECT_TRUE(Rank({0, 0}, 1.0, 0.0).empty());
}

// After a move of equal connections the loads are such that none moves back.
TEST(RankMovesTest, NoConnectionGoesToAndFro) {
  for (size_t count = 2; count < 20; ++count) {
    std::vector<double> costs(count, 1.0);
    double from = 1.0;
    double to = 0.0;
    size_t moved = 0;
    while (FindImbalance(std::array{from, to}, kCpus) && !RankMoves(costs, from, to).empty()) {
      ASSERT_LT(moved, count);
      const double share = from / static_cast<double>(costs.size());
      from -= share;
      to += share;
      costs.pop_back();
      ++moved;
    }
    EXPECT_GE(from, to) << count;
  }
}

}  // namespace
}  // namespace uroce::nic
