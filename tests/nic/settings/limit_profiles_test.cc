// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/limit_profiles.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "nic/settings/daemon_settings.h"
#include "tests/nic/settings/made_config.h"

namespace uroce::nic {
namespace {

uint64_t LimitOf(const Config& config, const std::string& key) {
  return std::stoull(ValueOf(key, config));
}

TEST(LimitProfilesTest, WithoutAProfileTheLimitsAreThoseOfTheFirst) {
  const absl::StatusOr<Config> without = FromFlags({});
  const absl::StatusOr<Config> with =
      FromFlags({std::string("--limits=") + LimitProfiles().front().name});
  ASSERT_TRUE(without.ok()) << without.status();
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_EQ(without->limit_profile, LimitProfiles().front().name);
  for (const SettingInfo& info : SettingInfos()) {
    EXPECT_EQ(ValueOf(info.key, *without), ValueOf(info.key, *with)) << info.key;
  }
}

TEST(LimitProfilesTest, EachValueIsOneThatTheLimitTakes) {
  for (const LimitProfile& profile : LimitProfiles()) {
    const absl::StatusOr<Config> config = FromFlags({"--limits", profile.name});
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->limit_profile, profile.name);
    for (const auto& [key, value] : profile.limits) {
      EXPECT_EQ(ValueOf(key, *config), value) << profile.name << " " << key;
    }
    EXPECT_NE(LimitProfilesHelp().find(profile.name), std::string::npos);
  }
}

TEST(LimitProfilesTest, LimitsGrowFromLaptopToServer) {
  const absl::StatusOr<Config> laptop = FromFlags({"--limits=laptop"});
  const absl::StatusOr<Config> shared = FromFlags({});
  const absl::StatusOr<Config> server = FromFlags({"--limits=server"});
  for (const SettingInfo& info : SettingInfos()) {
    if (!info.is_limit() || ValueOf(info.key, *shared).empty()) continue;
    EXPECT_LE(LimitOf(*laptop, info.key), LimitOf(*shared, info.key)) << info.key;
    EXPECT_LE(LimitOf(*shared, info.key), LimitOf(*server, info.key)) << info.key;
  }
}

TEST(LimitProfilesTest, AProgramsLimitIsNoMoreThanItsUsers) {
  for (const LimitProfile& profile : LimitProfiles()) {
    const absl::StatusOr<Config> config = FromFlags({"--limits", profile.name});
    ASSERT_TRUE(config.ok()) << config.status();
    for (const SettingInfo& info : SettingInfos()) {
      if (info.section != Section::kLimitsOfUser) continue;
      const std::string key = info.key.substr(0, info.key.rfind("_per_user"));
      if (ValueOf(key, *config).empty() || key == "max_sessions") continue;
      EXPECT_LE(LimitOf(*config, key), LimitOf(*config, info.key)) << profile.name << " " << key;
    }
  }
}

TEST(LimitProfilesTest, ASingleLimitWinsWhereverItIsWritten) {
  const absl::StatusOr<Config> before = FromFlags({"--max-qp=7", "--limits=laptop"});
  const absl::StatusOr<Config> after = FromFlags({"--limits=laptop", "--max-qp=7"});
  const absl::StatusOr<Config> file = FromFile(
      "[limits]\nmax_qp = 7\nprofile = \"laptop\"\n[[wire]]\na = \"10.0.0.1/24\"\n"
      "b = \"10.0.0.2/24\"\n");
  for (const absl::StatusOr<Config>* config : {&before, &after, &file}) {
    ASSERT_TRUE(config->ok()) << config->status();
    EXPECT_EQ(ValueOf("max_qp", **config), "7");
    EXPECT_EQ(ValueOf("max_cq", **config), "2048");
  }
}

TEST(LimitProfilesTest, TheLastProfileHolds) {
  const absl::StatusOr<Config> config = FromFlags({"--limits=laptop", "--limits=server"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->limit_profile, "server");
  EXPECT_EQ(ValueOf("max_sessions", *config), "4096");
}

}  // namespace
}  // namespace uroce::nic
