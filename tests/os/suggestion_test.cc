// SPDX-License-Identifier: Apache-2.0
#include "pipeline/os/suggestion.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

namespace uroce {
namespace {

TEST(SuggestionTest, ANearNameIsSuggested) {
  const std::vector<std::string> names{"max_qps", "max_cqs", "workers"};
  EXPECT_EQ(Suggestion("worker", names), "; did you mean workers?");
  EXPECT_EQ(Suggestion("wrokers", names), "; did you mean workers?") << "neighbours swapped";
  EXPECT_EQ(Suggestion("max_qqs", names), "; did you mean max_qps?") << "the first of equals";
}

TEST(SuggestionTest, AFarNameIsNot) {
  EXPECT_EQ(Suggestion("colour", {"max_qps", "workers"}), "");
  EXPECT_EQ(Suggestion("x", {}), "");
  EXPECT_EQ(Suggestion("", {"workers"}), "");
}

TEST(SuggestionTest, ShortNamesMayDifferInOneLetter) {
  EXPECT_EQ(Suggestion("qpp", {"qp", "mr"}), "; did you mean qp?");
  EXPECT_EQ(Suggestion("xy", {"qp", "mr"}), "");
}

class SuggestionForTest : public testing::Test {
 protected:
  SuggestionForTest() {
    app_.add_flag("--json");
    app_.add_subcommand("stat", "")->add_option("--watch");
  }
  std::string Unexpected(std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());
    EXPECT_THROW(app_.parse(arguments), CLI::ExtrasError);
    return SuggestionFor(app_);
  }
  CLI::App app_;
};

TEST_F(SuggestionForTest, FlagsAndCommands) {
  EXPECT_EQ(Unexpected({"--jsn"}), "; did you mean --json?");
  EXPECT_EQ(Unexpected({"stats"}), "; did you mean stat?");
}

TEST_F(SuggestionForTest, FlagsOfTheCommandThatWasGiven) {
  EXPECT_EQ(Unexpected({"stat", "--wathc=1"}), "; did you mean --watch?");
}

TEST_F(SuggestionForTest, NothingNear) { EXPECT_EQ(Unexpected({"bandwidth"}), ""); }

}  // namespace
}  // namespace uroce
