// SPDX-License-Identifier: Apache-2.0
// The settings of a dump as TOML.
#include "tools/views/listing.h"

#include <gtest/gtest.h>

namespace uroce::tools {
namespace {

TEST(ConfigTextTest, SettingsComeBeforeTables) {
  const auto text = RenderConfig(R"({
      "limits": {"max_qp": 10},
      "workers": 2, "no_huge": true, "fault": ["uroce0:drop=0.5", "a:ce=1"],
      "port": [{"name": "a", "cc.ai": 5}, {"name": "b"}],
      "wire": [{"uroce0": "10.0.0.1/24", "uroce1": "10.0.0.2/24", "uroce1.rate": "off"}],
      "log_level": "info"})");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text,
            "workers = 2\n"
            "no_huge = true\n"
            "fault = [\"uroce0:drop=0.5\",\"a:ce=1\"]\n"
            "log_level = \"info\"\n"
            "\n[limits]\nmax_qp = 10\n"
            "\n[[port]]\nname = \"a\"\n\"cc.ai\" = 5\n"
            "\n[[port]]\nname = \"b\"\n"
            "\n[[wire]]\nuroce0 = \"10.0.0.1/24\"\nuroce1 = \"10.0.0.2/24\"\n"
            "\"uroce1.rate\" = \"off\"\n");
}

TEST(ConfigTextTest, StringsAreQuoted) {
  const auto text = RenderConfig(R"({"socket": "/tmp/a \"b\"\\c"})");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "socket = \"/tmp/a \\\"b\\\"\\\\c\"\n");
}

TEST(ConfigTextTest, WhatIsNoJsonIsAnError) { EXPECT_FALSE(RenderConfig("{").ok()); }

}  // namespace
}  // namespace uroce::tools
