// SPDX-License-Identifier: Apache-2.0
#include "nic/control/log_limit.h"

#include <gtest/gtest.h>

namespace uroce::nic {
namespace {

constexpr Nanos kSecond{1'000'000'000};

TEST(LogLimitTest, OneLineInEachInterval) {
  LogLimit limit(kSecond);
  EXPECT_TRUE(limit.MayLog(kSecond * 5));
  EXPECT_FALSE(limit.MayLog(kSecond * 5));
  EXPECT_FALSE(limit.MayLog(kSecond * 6 - Nanos(1)));
  EXPECT_TRUE(limit.MayLog(kSecond * 6));
  EXPECT_FALSE(limit.MayLog(kSecond * 6));
}

TEST(LogLimitTest, QuietTimeIsNotSavedUp) {
  LogLimit limit(kSecond);
  EXPECT_TRUE(limit.MayLog(kSecond));
  EXPECT_TRUE(limit.MayLog(kSecond * 100));
  EXPECT_FALSE(limit.MayLog(kSecond * 100 + Nanos(1)));
}

}  // namespace
}  // namespace uroce::nic
