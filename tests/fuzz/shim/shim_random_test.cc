// SPDX-License-Identifier: Apache-2.0
// Checks the property of the shim's fuzzer with good scripts and random changes, from fixed seeds:
// this test runs where there is no libFuzzer.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <random>

#include "tests/fuzz/shim/shim_script.h"

namespace uroce::fuzz {
namespace {

using Script = std::vector<uint8_t>;

constexpr unsigned kDeadlineSeconds = 60;  ///< For one script, which takes a millisecond.

/// Names the call that does not return.
void OnAlarm(int) {
  const char* const call = ShimProgram::call();
  static_cast<void>(write(STDERR_FILENO, "does not return: ", 17));
  static_cast<void>(write(STDERR_FILENO, call, std::strlen(call)));
  static_cast<void>(write(STDERR_FILENO, "\n", 1));
  _exit(1);
}

std::string FailureInTime(const Script& script) {
  signal(SIGALRM, OnAlarm);
  alarm(kDeadlineSeconds);
  std::string failure = ShimFailure(script);
  alarm(0);
  return failure;
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
      script.insert(place, {kAlterReply, 0, static_cast<uint8_t>(128 + random() % 100), 0, 1,
                            static_cast<uint8_t>(random())});
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

TEST(ShimRandomTest, GoodScriptsAreGood) {
  for (const Script& script : GoodShimScripts()) EXPECT_EQ(FailureInTime(script), "");
}

TEST(ShimRandomTest, NoDaemonHasAProgramWriteWhereItMayNot) {
  std::mt19937 random(1);
  const std::vector<Script> good = GoodShimScripts();
  for (int round = 0; round < 1000; ++round) {
    Script script = good[random() % good.size()];
    for (auto changes = random() % 8; changes != 0; --changes) script = Change(script, random);
    ASSERT_EQ(FailureInTime(script), "") << "round " << round;
  }
}

}  // namespace
}  // namespace uroce::fuzz
