// SPDX-License-Identifier: Apache-2.0
// Checks the property of the fuzzer of rdma_cm's commands with good scripts and random changes,
// from fixed seeds: this test runs where there is no libFuzzer.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/fuzz/management/ucma_script.h"

namespace uroce::nic::ucma {
namespace {

constexpr int kRounds = 4000;

/// Mostly small numbers, which ids, files and commands are.
uint8_t AnyByte(std::mt19937& random) {
  return static_cast<uint8_t>(random() % 4 == 0 ? random() : random() % 24);
}

void ExpectHolds(uint16_t space, uint32_t seed) {
  std::mt19937 random(seed);
  const std::vector<uint8_t> good = GoodUcmaScript(space);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<uint8_t> script = good;
    for (uint32_t changes = random() % 16; changes != 0; --changes) {
      script[random() % script.size()] = AnyByte(random);
    }
    if (random() % 8 == 0) script.resize(random() % script.size());
    ASSERT_TRUE(UcmaRun().Holds(script)) << "seed " << seed << ", round " << round;
  }
}

TEST(UcmaRandomTest, HoldsForConnectionsWithRandomChanges) { ExpectHolds(RDMA_PS_TCP, 1); }

TEST(UcmaRandomTest, HoldsForDatagramServicesWithRandomChanges) { ExpectHolds(RDMA_PS_UDP, 2); }

TEST(UcmaRandomTest, HoldsForRandomCommands) {
  std::mt19937 random(3);
  for (int round = 0; round < kRounds; ++round) {
    UcmaScript script;
    for (int step = 0; step < 16; ++step) {
      std::array<uint8_t, 40> body{};
      for (uint8_t& byte : body) byte = random() % 2 == 0 ? 0 : AnyByte(random);
      script.Add(AnyByte(random), static_cast<uint32_t>(random() % 24), body);
    }
    ASSERT_TRUE(UcmaRun().Holds(script.bytes())) << "round " << round;
  }
}

// The script is useful as a first input only if it runs to its end unchanged.
TEST(UcmaRandomTest, TheGoodScriptIsGood) {
  UcmaRun run;
  EXPECT_TRUE(run.Holds(GoodUcmaScript(RDMA_PS_TCP)));
  EXPECT_EQ(run.refused(), 0);
}

}  // namespace
}  // namespace uroce::nic::ucma
