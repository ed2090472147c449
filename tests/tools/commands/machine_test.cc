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
  EXPECT_EQ(TakeProgram(arguments).program, (Words{"ibv_devinfo", "--socket", "-v"}));
  EXPECT_EQ(arguments, (Words{"--socket", "/s", "run"}));
}

TEST(LaunchersTest, FlagsBeforeTheProgramAreThoseOfTheTool) {
  Words arguments{"run", "--socket=/s", "--help", "ibv_devinfo"};
  EXPECT_EQ(TakeProgram(arguments).program, Words{"ibv_devinfo"});
  EXPECT_EQ(arguments, (Words{"run", "--socket=/s", "--help"}));
}

TEST(LaunchersTest, TwoDashesBeginTheProgramAndAreNotPassedOn) {
  Words arguments{"run", "--", "-program", "--", "x"};
  EXPECT_EQ(TakeProgram(arguments).program, (Words{"-program", "--", "x"}));
  EXPECT_EQ(arguments, Words{"run"});
}

TEST(LaunchersTest, OtherCommandsKeepTheirWords) {
  for (Words arguments : {Words{}, Words{"stat", "run"}, Words{"--socket", "run"}, Words{"run"}}) {
    const Words before = arguments;
    EXPECT_EQ(TakeProgram(arguments).program, Words{});
    EXPECT_EQ(arguments, before);
  }
}

TEST(LaunchersTest, WhatStandsBeforeTheDashesOfAPrivateRunIsForTheDaemon) {
  Words arguments{"run",    "--private", "--workers", "2",         "--help",
                  "--only", "--",        "program",   "--private", "--only"};
  const RunWords words = TakeProgram(arguments);
  EXPECT_TRUE(words.is_private);
  EXPECT_EQ(words.daemon_options, (Words{"--workers", "2"}));
  EXPECT_EQ(words.program, (Words{"program", "--private", "--only"}));
  EXPECT_EQ(arguments, (Words{"run", "--private", "--help", "--only"}));
}

TEST(LaunchersTest, APrivateRunWithoutDashesBeginsWithTheProgram) {
  Words arguments{"run", "--private", "program", "--workers", "2"};
  const RunWords words = TakeProgram(arguments);
  EXPECT_TRUE(words.is_private);
  EXPECT_EQ(words.daemon_options, Words{});
  EXPECT_EQ(words.program, (Words{"program", "--workers", "2"}));
}

TEST(LaunchersTest, AFlagOfTheProgramMakesNoRunPrivate) {
  for (Words arguments :
       {Words{"run", "program", "--private"}, Words{"run", "program", "--private", "--", "x"},
        Words{"run", "--", "program", "--private"}}) {
    const Words program(arguments.begin() + (arguments[1] == "--" ? 2 : 1), arguments.end());
    const RunWords words = TakeProgram(arguments);
    EXPECT_FALSE(words.is_private);
    EXPECT_EQ(words.program, program);
  }
}

}  // namespace
}  // namespace uroce::tools
