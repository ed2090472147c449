// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/daemon_settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/nic/settings/made_config.h"

namespace uroce::nic {
namespace {

TEST(DaemonSettingsTest, DashesAndUnderscoresAreTheSameInFlagNames) {
  const absl::StatusOr<Config> config =
      FromFlags({"--log-level=debug", "--share_userfaultfd", "--no-huge", "--max-qp", "100"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->log_level, "debug");
  EXPECT_TRUE(config->share_userfaultfd);
  EXPECT_TRUE(config->no_huge);
  EXPECT_EQ(config->limits.kinds.of(Kind::kQp).of_program, 100u);
}

TEST(DaemonSettingsTest, SwitchMayBeSetToFalse) {
  const absl::StatusOr<Config> config = FromFlags({"--no-huge", "--no-huge=false"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->no_huge);
}

/// The options that a help text has.
size_t CountOfOptions(const std::string& help) {
  size_t count = 0;
  for (size_t at = 0; (at = help.find("\n  -", at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(DaemonSettingsTest, TheShortHelpHasTwelveOptionsAtMost) {
  const std::string help = HelpText(HelpKind::kCommon);
  EXPECT_LE(CountOfOptions(help), 12u) << help;
  for (const char* flag : {"--port", "--limits", "--config", "--help-all", "--version"}) {
    EXPECT_NE(help.find(flag), std::string::npos) << flag;
  }
  EXPECT_EQ(help.find("--max-"), std::string::npos);
}

TEST(DaemonSettingsTest, BothHelpsCanBeAskedFor) {
  EXPECT_EQ(ParseCommandLine({"--help"})->help, HelpKind::kCommon);
  EXPECT_EQ(ParseCommandLine({"-h"})->help, HelpKind::kCommon);
  EXPECT_EQ(ParseCommandLine({"--help-all"})->help, HelpKind::kAll);
  EXPECT_EQ(ParseCommandLine({"--workers=2"})->help, std::nullopt);
}

TEST(DaemonSettingsTest, TheLongHelpNamesEverySetting) {
  const std::string help = HelpText(HelpKind::kAll);
  for (const SettingInfo& info : SettingInfos()) {
    std::string flag = info.key;
    std::replace(flag.begin(), flag.end(), '_', '-');
    EXPECT_NE(help.find("--" + flag), std::string::npos) << info.key;
  }
}

}  // namespace
}  // namespace uroce::nic
