// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/commands.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace uroce::tools {
namespace {

using Words = std::vector<std::string>;

TEST(LaunchersTest, FlagsOfTheProgramAreNotThoseOfTheTool) {
  Words arguments{"--socket", "/s", "run", "ibv_devinfo", "--socket", "-v"};
  EXPECT_EQ(TakeProgram(arguments), (Words{"ibv_devinfo", "--socket", "-v"}));
  EXPECT_EQ(arguments, (Words{"--socket", "/s", "run"}));
}

TEST(LaunchersTest, FlagsBeforeTheProgramAreThoseOfTheTool) {
  Words arguments{"run", "--socket=/s", "--help", "ibv_devinfo"};
  EXPECT_EQ(TakeProgram(arguments), Words{"ibv_devinfo"});
  EXPECT_EQ(arguments, (Words{"run", "--socket=/s", "--help"}));
}

TEST(LaunchersTest, TwoDashesBeginTheProgramAndAreNotPassedOn) {
  Words arguments{"run", "--", "-program", "--", "x"};
  EXPECT_EQ(TakeProgram(arguments), (Words{"-program", "--", "x"}));
  EXPECT_EQ(arguments, Words{"run"});
}

TEST(LaunchersTest, OtherCommandsKeepTheirWords) {
  for (Words arguments : {Words{}, Words{"stat", "run"}, Words{"--socket", "run"}, Words{"run"}}) {
    const Words before = arguments;
    EXPECT_EQ(TakeProgram(arguments), Words{});
    EXPECT_EQ(arguments, before);
  }
}

}  // namespace
}  // namespace uroce::tools
