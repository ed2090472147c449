// SPDX-License-Identifier: Apache-2.0
// What all commands print.
#include "tools/commands/commands.h"

#include <gtest/gtest.h>

namespace uroce::tools {
namespace {

// The text may have names that a hostile daemon or program chose.
TEST(CommandsTest, WhatIsPrintedSteersNoTerminal) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(Print(std::string("a\tb\x1b[2J\nc\xc2\x9b\x7f\r\xc3\xa4\n")), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a\tb?[2J\nc????\xc3\xa4\n");
  testing::internal::CaptureStderr();
  EXPECT_NE(Report(absl::DataLossError("x\x1b]0;y\a\n  z")), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "uroce: x?]0;y?\n  z\n");
}

}  // namespace
}  // namespace uroce::tools
