// SPDX-License-Identifier: Apache-2.0
// How long workers leave a user's mapped memory alone.
#include "pipeline/datapath/memory/memory_rest.h"

#include <gtest/gtest.h>

#include <algorithm>

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

TEST(MemoryRestTest, AnEndlessOneIsOnFromTheStartAndNeverOver) {
  MemoryRest rest(/*is_endless=*/true);
  EXPECT_TRUE(rest.is_on());
  EXPECT_TRUE(rest.has_begun());
  rest.Begin(kRestStart, kRestWaited);
  rest.EndIfOver(kRestStart + kRestWaited * MemoryRest::kMostTimes);
  EXPECT_TRUE(rest.is_on());
}

TEST(MemoryRestTest, AShorterWaitDoesNotShortenIt) {
  MemoryRest rest;
  rest.Begin(kRestStart, kRestWaited);
  rest.Begin(kRestStart + kRestWaited, Nanos(1'000'000));
  rest.EndIfOver(kRestStart + kRestWaited * 100 - Nanos(1));
  EXPECT_TRUE(rest.is_on());
}

// A program that makes workers wait whenever it may takes less and less of their time.
TEST(MemoryRestTest, ARestSoonAfterARestIsTenTimesAsLong) {
  MemoryRest rest;
  Nanos now = kRestStart;
  for (const int times : {100, 1'000, 10'000, 10'000}) {
    rest.Begin(now, kRestWaited);
    now = now + kRestWaited * times;
    rest.EndIfOver(now - Nanos(1));
    EXPECT_TRUE(rest.is_on()) << times;
    rest.EndIfOver(now);
    EXPECT_FALSE(rest.is_on()) << times;
  }
}

TEST(MemoryRestTest, ARestSoonAfterARestIsTenMinutesAtMost) {
  for (const Nanos waited : {Nanos(1'000'000'000), Nanos(7'000'000'000)}) {
    MemoryRest rest;
    Nanos now = kRestStart;
    const Nanos first = waited * 100;
    rest.Begin(now, waited);
    now = now + first;
    rest.EndIfOver(now);
    rest.Begin(now, waited);
    now = now + std::max(first, Nanos(600'000'000'000));
    rest.EndIfOver(now - Nanos(1));
    EXPECT_TRUE(rest.is_on()) << "a hundred times the wait at least";
    rest.EndIfOver(now);
    EXPECT_FALSE(rest.is_on());
  }
}

TEST(MemoryRestTest, ARestLongAfterARestIsLikeTheFirstOne) {
  MemoryRest rest;
  rest.Begin(kRestStart, kRestWaited);
  const Nanos length = kRestWaited * 100;
  rest.EndIfOver(kRestStart + length);
  const Nanos later = kRestStart + length * 11;
  rest.Begin(later, kRestWaited);
  rest.EndIfOver(later + length);
  EXPECT_FALSE(rest.is_on());
}

TEST(MemoryRestTest, WorkersThatWaitAtTheSameTimeBeginOneRest) {
  MemoryRest rest;
  rest.Begin(kRestStart, kRestWaited);
  rest.Begin(kRestStart + Nanos(1), kRestWaited);
  rest.EndIfOver(kRestStart + Nanos(1) + kRestWaited * 100);
  EXPECT_FALSE(rest.is_on());
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
