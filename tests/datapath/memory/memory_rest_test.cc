// SPDX-License-Identifier: Apache-2.0
// How long workers leave a user's mapped memory alone.
#include "pipeline/datapath/memory/memory_rest.h"

#include <gtest/gtest.h>

namespace uroce::datapath {
namespace {

constexpr Nanos kRestStart{1'000'000'000};
constexpr Nanos kRestWaited{2'000'000};

TEST(MemoryRestTest, ItLastsAHundredTimesAsLongAsAWorkerWaited) {
  MemoryRest rest;
  EXPECT_FALSE(rest.is_on());
  rest.Begin(kRestStart, kRestWaited);
  EXPECT_TRUE(rest.is_on());
  rest.EndIfOver(kRestStart + kRestWaited * 100 - Nanos(1));
  EXPECT_TRUE(rest.is_on());
  rest.EndIfOver(kRestStart + kRestWaited * 100);
  EXPECT_FALSE(rest.is_on());
}

TEST(MemoryRestTest, AShorterWaitDoesNotShortenIt) {
  MemoryRest rest;
  rest.Begin(kRestStart, kRestWaited);
  rest.Begin(kRestStart + kRestWaited, Nanos(1'000'000));
  rest.EndIfOver(kRestStart + kRestWaited * 100 - Nanos(1));
  EXPECT_TRUE(rest.is_on());
}

// Copies that helpers have begun may still be running.
TEST(MemoryRestTest, ThatItHasBegunStaysTrue) {
  MemoryRest rest;
  EXPECT_FALSE(rest.has_begun());
  rest.Begin(kRestStart, kRestWaited);
  rest.EndIfOver(kRestStart + kRestWaited * 100);
  EXPECT_TRUE(rest.has_begun());
}

}  // namespace
}  // namespace uroce::datapath
