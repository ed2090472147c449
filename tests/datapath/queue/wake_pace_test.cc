// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/notification.h"

#include <gtest/gtest.h>

namespace uroce::datapath {
namespace {

class WakePaceTest : public testing::Test {
 protected:
  static constexpr Nanos kNow{1'000'000'000};
  static constexpr Nanos kDear = WakePace::kCheap * 10;
};

TEST_F(WakePaceTest, WhatSeemsDearIsMeasuredByTheThreadsOwnClockFirst) {
  WakePace pace;
  pace.Account(kNow, kDear, false);
  EXPECT_TRUE(pace.MayWake(kNow)) << "another thread may have run";
  EXPECT_TRUE(pace.is_suspected());
  pace.Account(kNow, WakePace::kCheap, true);
  EXPECT_TRUE(pace.MayWake(kNow));
  EXPECT_FALSE(pace.is_suspected());
}

TEST_F(WakePaceTest, AfterADearWakeUpTheNextWaitForManyTimesAsLong) {
  WakePace pace;
  pace.Account(kNow, kDear, false);
  pace.Account(kNow, kDear, true);
  EXPECT_FALSE(pace.MayWake(kNow + kDear * WakePace::kRest - Nanos(1)));
  EXPECT_TRUE(pace.MayWake(kNow + kDear * WakePace::kRest));
  EXPECT_TRUE(pace.is_suspected()) << "until one is cheap";
}

TEST_F(WakePaceTest, ManyCheapWakeUpsNeedNoRest) {
  WakePace pace;
  for (int i = 0; i < 1000; ++i) pace.Account(kNow, WakePace::kCheap, false);
  EXPECT_TRUE(pace.MayWake(kNow));
  EXPECT_FALSE(pace.is_suspected());
}

}  // namespace
}  // namespace uroce::datapath
