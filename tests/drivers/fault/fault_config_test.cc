// SPDX-License-Identifier: Apache-2.0
// The text of faults.
#include "drivers/fault/fault_config.h"

#include <gtest/gtest.h>

#include <string>

namespace uroce::drivers {
namespace {

TEST(FaultConfigTest, EveryKeyIsRead) {
  const auto config = ParseFault(
      "seed=7,drop=0.01,duplicate=0.02,reorder=0.03,delay=10us,corrupt=0.001,ce=1,dir=rx");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->seed, 7u);
  EXPECT_EQ(config->drop, 0.01);
  EXPECT_EQ(config->duplicate, 0.02);
  EXPECT_EQ(config->reorder, 0.03);
  EXPECT_EQ(config->delay, Nanos(10'000));
  EXPECT_EQ(config->corrupt, 0.001);
  EXPECT_EQ(config->ce_mark, 1);
  EXPECT_EQ(config->direction, FaultDirection::kReceive);
}

TEST(FaultConfigTest, WhatIsNotSaidIsHarmless) {
  const auto config = ParseFault("drop=0.5");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->duplicate, 0);
  EXPECT_EQ(config->delay, Nanos(0));
  EXPECT_EQ(config->direction, FaultDirection::kBoth);
}

struct Wrong {
  const char* text;
  const char* said;  ///< The message holds this.
};

class FaultConfigErrorTest : public testing::TestWithParam<Wrong> {};

TEST_P(FaultConfigErrorTest, NamesKeyAndValue) {
  const auto config = ParseFault(GetParam().text);
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(config.status().message()).find(GetParam().said), std::string::npos)
      << config.status();
}

INSTANTIATE_TEST_SUITE_P(
    Errors, FaultConfigErrorTest,
    testing::Values(Wrong{"drop=2", "drop=2"}, Wrong{"drop=-0.1", "drop=-0.1"},
                    Wrong{"drop=nan", "drop=nan"}, Wrong{"drop=", "drop="},
                    Wrong{"drop=0.1x", "drop=0.1x"}, Wrong{"seed=-1", "seed=-1"},
                    Wrong{"delay=10", "delay=10"}, Wrong{"delay=-1us", "delay=-1us"},
                    Wrong{"delay=2s", "delay=2s"}, Wrong{"dir=up", "dir=up"},
                    Wrong{"link=dwn", "link=dwn"}, Wrong{"loss=0.1", "loss=0.1: unknown key"},
                    Wrong{"drop", "\"drop\""}, Wrong{"drop=0.1,,ce=1", "\"\""}, Wrong{"", "\"\""}));

}  // namespace
}  // namespace uroce::drivers
