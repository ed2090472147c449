// SPDX-License-Identifier: Apache-2.0
// Checks the properties of the fuzzers of superframes and of HTTP with scripts and random changes,
// from a fixed seed: this test runs where there is no libFuzzer.
#include <gtest/gtest.h>

#include <random>

#include "tests/fuzz/http_check.h"
#include "tests/fuzz/superframes_check.h"

namespace uroce::fuzz {
namespace {

using Scripts = std::vector<std::vector<uint8_t>>;

void ExpectToHold(const Scripts& good, bool (*holds)(std::span<const uint8_t>), int rounds) {
  for (const std::vector<uint8_t>& script : good) EXPECT_TRUE(holds(script));
  std::mt19937 random(1);
  for (int round = 0; round < rounds; ++round) {
    std::vector<uint8_t> script = good[random() % good.size()];
    script.resize(script.size() + random() % 64);
    for (auto changes = random() % 16; changes != 0; --changes) {
      script[random() % script.size()] = static_cast<uint8_t>(random());
    }
    ASSERT_TRUE(holds(script)) << "round " << round;
  }
}

TEST(SuperframesRandomTest, FramesAreThoseOfTheMessage) {
  ExpectToHold(GoodSuperframes(), SuperframesHold, 2000);
}

TEST(HttpRandomTest, EachClientGetsOneAnswerOrNone) {
  ExpectToHold(GoodHttpScripts(), HttpHolds, 300);
}

}  // namespace
}  // namespace uroce::fuzz
