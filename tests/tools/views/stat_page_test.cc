// SPDX-License-Identifier: Apache-2.0
#include "tools/views/stat_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace uroce::tools {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A folder with a stand-in for d3.
class StatPageTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    std::ofstream(library_) << "var d3;";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ = absl::StrCat(testing::TempDir(), "/stat_page_test-", getpid());
  const std::string library_ = folder_ + "/d3.js";
  const std::string file_ = folder_ + "/stat.html";
};

std::string TextOf(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// After "<!--<script" a browser takes the end of the element, and scripts behind it, for data.
TEST_F(StatPageTest, NamesOpenAndCloseNoElements) {
  StatPage page(file_, library_);
  ASSERT_TRUE(page.Add(R"({"name":"<!--<script></script>"})", absl::FromUnixNanos(5)).ok());
  EXPECT_THAT(TextOf(file_), HasSubstr(R"({"name":"\u003c!--\u003cscript>\u003c/script>"})"));
}

TEST_F(StatPageTest, EachLookIsInThePageWithItsTime) {
  StatPage page(file_, library_);
  ASSERT_TRUE(page.Add(R"({"a":1})", absl::FromUnixNanos(5)).ok());
  ASSERT_TRUE(page.Add(R"({"a":2})", absl::FromUnixNanos(9)).ok());
  EXPECT_EQ(page.Report(), R"({"looks":[{"ns":5,"stat":{"a":1}},{"ns":9,"stat":{"a":2}}]})");
  EXPECT_THAT(TextOf(file_), HasSubstr(page.Report()));
  EXPECT_FALSE(std::filesystem::exists(file_ + ".new"));
}

TEST_F(StatPageTest, ManyLooksBecomeHalfAsManyOfTheSameTime) {
  StatPage page(file_, library_);
  for (size_t i = 0; i <= StatPage::kMostLooks; ++i) {
    ASSERT_TRUE(page.Add("1", absl::FromUnixNanos(static_cast<int64_t>(i))).ok());
  }
  const std::string report = page.Report();
  EXPECT_THAT(report, StartsWith(R"({"looks":[{"ns":0,"stat":1},{"ns":2,)"));
  EXPECT_THAT(report, HasSubstr(R"({"ns":598,"stat":1},{"ns":600,"stat":1}]})"));
  EXPECT_THAT(report, Not(HasSubstr(R"("ns":599)")));
}

TEST_F(StatPageTest, FileThatCannotBeWrittenIsNamed) {
  StatPage page(folder_ + "/nowhere/stat.html", library_);
  EXPECT_THAT(page.Add("1", absl::UnixEpoch()).ToString(), HasSubstr("nowhere/stat.html"));
}

}  // namespace
}  // namespace uroce::tools
