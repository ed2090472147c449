// SPDX-License-Identifier: Apache-2.0
// A log whose reader has stopped holds up no thread of the daemon.
#include "nic/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "pipeline/os/fd.h"

namespace uroce::nic {
namespace {

using testing::HasSubstr;

/// Standard error is a pipe.
class LogPipeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { StartLog(/*is_json=*/false, "info"); }
  LogPipeTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    reader_ = Fd(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
  }
  ~LogPipeTest() override { dup2(old_.get(), STDERR_FILENO); }

  std::string Read() const {
    std::string text(1 << 20, '\0');
    const ssize_t got = read(reader_.get(), text.data(), text.size());
    text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return text;
  }

 private:
  const Fd old_{dup(STDERR_FILENO)};
  Fd reader_;
};

TEST_F(LogPipeTest, LinesThatTheReaderLeavesNoRoomForAreLeftOutAndCounted) {
  constexpr int kLines = 2000;
  const std::string line(100, 'x');
  for (int i = 0; i < kLines; ++i) LogInfo("{}", line);
  const std::string before = Read();
  const auto written = std::ranges::count(before, '\n');
  EXPECT_GT(written, 100);
  LogInfo("later");
  EXPECT_THAT(Read(), testing::AllOf(
                          HasSubstr(std::to_string(kLines - written) + " lines are left out here"),
                          HasSubstr("info: later\n")));
  LogInfo("last");
  EXPECT_THAT(Read(), testing::Not(HasSubstr("left out")));
}

// Longer ones could wait in the middle.
TEST_F(LogPipeTest, ALineFitsIntoAPageOfThePipe) {
  LogInfo("{}", std::string(10'000, 'x'));
  EXPECT_LT(Read().size(), 4096u);
}

}  // namespace
}  // namespace uroce::nic
