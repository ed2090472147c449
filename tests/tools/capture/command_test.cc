// SPDX-License-Identifier: Apache-2.0
#include "tools/capture/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace uroce::tools {
namespace {

using testing::HasSubstr;

TEST(CaptureLimitsTest, WordsAndUnitsAreThoseOfDumpcap) {
  CaptureLimits limits;
  for (const char* text : {"filesize:2", "packets:3", "duration:1.5", "files:4"}) {
    EXPECT_TRUE(AddLimit("-b", text, limits).ok()) << text;
  }
  EXPECT_EQ(limits.bytes, 2000u);
  EXPECT_EQ(limits.packets, 3u);
  EXPECT_EQ(limits.duration_ns, 1'500'000'000u);
  EXPECT_EQ(limits.files, 4u);
}

TEST(CaptureLimitsTest, BadLimitNamesOptionAndText) {
  for (const char* text :
       {"", "filesize", "filesize:", "filesize:0", "packets:-1", "files:many", "duration:0",
        "duration:nan", "duration:1e300", "size:5", "filesize:99999999999999999999"}) {
    CaptureLimits limits;
    const absl::Status status = AddLimit("-a", text, limits);
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string("-a ") + text));
  }
}

TEST(CaptureLimitsTest, EachBoundIsReachedAtItsValue) {
  const CaptureLimits limits{.bytes = 10, .packets = 5, .duration_ns = 100};
  EXPECT_FALSE(IsReached(limits, {.bytes = 9, .packets = 4, .duration_ns = 99}));
  EXPECT_TRUE(IsReached(limits, {.bytes = 10}));
  EXPECT_TRUE(IsReached(limits, {.packets = 5}));
  EXPECT_TRUE(IsReached(limits, {.duration_ns = 100}));
}

TEST(CaptureLimitsTest, NoBoundIsNeverReached) {
  EXPECT_FALSE(IsReached({}, {.bytes = ~0ull, .packets = ~0ull, .duration_ns = ~0ull}));
}

TEST(CaptureLimitsTest, CountOfFilesFillsNoFile) {
  EXPECT_FALSE(BoundsOneFile({.files = 3}));
  EXPECT_TRUE(BoundsOneFile({.packets = 3}));
}

}  // namespace
}  // namespace uroce::tools
