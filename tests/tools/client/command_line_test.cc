// SPDX-License-Identifier: Apache-2.0
// Which words are whole numbers of a range, and what is said of others.
#include "tools/client/command_line.h"

#include <gtest/gtest.h>

#include <string>

namespace uroce::tools {
namespace {

std::string Said(const WordCheck& check, std::string text) { return check(text); }

TEST(WholeNumberTest, BothEndsAreInTheRange) {
  const WordCheck check = WholeNumber(1, 0xffffff);
  for (const char* const right : {"1", "16777215", "0xffffff", "0X10"}) {
    EXPECT_EQ(Said(check, right), "") << right;
  }
  for (const char* const wrong : {"0", "16777216", "99999999999999999999"}) {
    EXPECT_EQ(Said(check, wrong), std::string(wrong) + " is no number from 1 to 16777215");
  }
}

TEST(WholeNumberTest, WordsAreNoNumbers) {
  const WordCheck check = WholeNumber(1);
  EXPECT_EQ(Said(check, "18446744073709551615"), "");
  for (const char* const wrong : {"", "abc", "-1", "+1", " 1", "1x", "0x", "1.5"}) {
    EXPECT_EQ(Said(check, wrong), std::string(wrong) + " is no number from 1 up");
  }
}

}  // namespace
}  // namespace uroce::tools
