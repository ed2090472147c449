// SPDX-License-Identifier: Apache-2.0
// Checks the property of the daemon's fuzzers with good programs and random changes, from fixed
// seeds: this test runs where there is no libFuzzer.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "nic/objects/numbers.h"
#include "tests/fuzz/program/program_script.h"

namespace uroce::fuzz {
namespace {

using Script = std::vector<uint8_t>;

uroce_cqe EntryOf(const ProgramScript& program, uint32_t qp, uint32_t index) {
  uroce_cqe entry;
  std::memcpy(
      &entry,
      program.arena() + RingOfQueuePair(qp) + sizeof(uroce_cq_ring_page) + index * sizeof(entry),
      sizeof(entry));
  return entry;
}

TEST(ProgramRandomTest, TheGoodProgramIsGood) {
  {
    ProgramScript program(TheDaemon());
    program.Run(MadeProgram());
    EXPECT_EQ(TheDaemon().nic().numbers().queue_pairs.held(), 2u);
    program.Run(GoodScripts()[0]);
    for (uint32_t index = 0; index < 5; ++index) {
      EXPECT_EQ(EntryOf(program, 0, index).generation, 1u) << index;
      EXPECT_EQ(EntryOf(program, 0, index).status, 0) << index;
      EXPECT_EQ(EntryOf(program, 0, index).wr_id, index);
    }
  }
  EXPECT_TRUE(HoldsNothing(TheDaemon()));
}

TEST(ProgramRandomTest, NothingIsLeftOfGoodPrograms) {
  for (const Script& script : GoodScripts()) EXPECT_TRUE(ScriptHolds(script, true));
}

Script Change(Script script, std::mt19937& random) {
  if (script.empty()) return script;
  const size_t at = random() % script.size();
  const auto place = script.begin() + static_cast<ptrdiff_t>(at);
  switch (random() % 6) {
    case 0:
      script[at] = static_cast<uint8_t>(random());
      break;
    case 1:
      script[at] ^= static_cast<uint8_t>(1 << random() % 8);
      break;
    case 2:
      script.erase(place);
      break;
    case 3:
      script.resize(at);
      break;
    case 4: {
      const Script again(script.begin(), place);
      script.insert(script.end(), again.begin(), again.end());
      break;
    }
    default:
      script.insert(place, random() % 8, static_cast<uint8_t>(random()));
      break;
  }
  return script;
}

void CheckChanged(bool made, uint32_t seed, int rounds) {
  std::mt19937 random(seed);
  const std::vector<Script> good = GoodScripts();
  for (int round = 0; round < rounds; ++round) {
    Script script = good[random() % good.size()];
    if (!made) {
      const Script before = MadeProgram();
      script.insert(script.begin(), before.begin(), before.end());
    }
    for (auto changes = random() % 6; changes != 0; --changes) script = Change(script, random);
    ASSERT_TRUE(ScriptHolds(script, made)) << "round " << round;
  }
}

TEST(ProgramRandomTest, NothingIsLeftOfProgramsThatSayRandomThings) { CheckChanged(false, 1, 300); }

TEST(ProgramRandomTest, NothingIsLeftOfProgramsThatDoRandomThings) { CheckChanged(true, 2, 600); }

// The worker must also be in its former state.
TEST(ProgramRandomTest, TheGoodProgramIsStillGoodAfterThem) {
  CheckChanged(true, 3, 50);
  ProgramScript program(TheDaemon());
  program.Run(MadeProgram());
  program.Run(GoodScripts()[0]);
  EXPECT_EQ(EntryOf(program, 0, 4).generation, 1u);
  EXPECT_EQ(EntryOf(program, 0, 4).status, 0);
}

}  // namespace
}  // namespace uroce::fuzz
