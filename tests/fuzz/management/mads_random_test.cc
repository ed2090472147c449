// SPDX-License-Identifier: Apache-2.0
// Checks the property of the fuzzer of management datagrams with scripts and random changes, from a
// fixed seed: this test runs where there is no libFuzzer.
#include <gtest/gtest.h>

#include <random>

#include "tests/fuzz/management/mads_script.h"

namespace uroce::fuzz {
namespace {

TEST(MadsRandomTest, HoldsForGoodNetworks) {
  for (const std::vector<uint8_t>& script : GoodMadsScripts()) EXPECT_TRUE(MadsHold(script));
}

TEST(MadsRandomTest, HoldsForNetworksThatDoRandomThings) {
  std::mt19937 random(1);
  const std::vector<std::vector<uint8_t>> good = GoodMadsScripts();
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint8_t> script = good[random() % good.size()];
    script.resize(script.size() + random() % 64);
    for (auto changes = random() % 32; changes != 0; --changes) {
      script[random() % script.size()] = static_cast<uint8_t>(random());
    }
    ASSERT_TRUE(MadsHold(script)) << "round " << round;
  }
}

}  // namespace
}  // namespace uroce::fuzz
