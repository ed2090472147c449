// SPDX-License-Identifier: Apache-2.0
// Names, ranges and defaults of the parameters (docs/protocol/congestion.md, sections 4, 6 and 7).
#include "pipeline/congestion/settings.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace uroce::congestion {
namespace {

uint32_t Value(Profile profile, std::string_view name) {
  Settings settings = DefaultsOf(profile);
  const Parameter* const parameter = FindParameter(name);
  return parameter == nullptr ? UINT32_MAX : parameter->of(settings);
}

// [cc.settings] The defaults of mlx5.
TEST(CongestionSettings, DefaultsOfNvidia) {
  const std::map<std::string, uint32_t> defaults = {{"clamp_tgt_rate", 0},
                                                    {"clamp_tgt_rate_after_time_inc", 1},
                                                    {"rpg_time_reset", 300},
                                                    {"rpg_byte_reset", 32767},
                                                    {"rpg_threshold", 1},
                                                    {"rpg_max_rate", 0},
                                                    {"rpg_ai_rate", 5},
                                                    {"rpg_hai_rate", 50},
                                                    {"rpg_gd", 11},
                                                    {"rpg_min_dec_fac", 50},
                                                    {"rpg_min_rate", 1},
                                                    {"rate_to_set_on_first_cnp", 0},
                                                    {"dce_tcp_g", 1019},
                                                    {"dce_tcp_rtt", 1},
                                                    {"rate_reduce_monitor_period", 4},
                                                    {"initial_alpha_value", 1023},
                                                    {"min_time_between_cnps", 4},
                                                    {"cnp_dscp", 48},
                                                    {"cnp_802p_prio", 6}};
  for (const auto& [name, value] : defaults) {
    EXPECT_EQ(Value(Profile::kDcqcnMlx, name), value) << name;
  }
}

// [cc.settings] The paper's recommended values, in the units of mlx5's files.
TEST(CongestionSettings, DefaultsOfThePaper) {
  const std::map<std::string, uint32_t> defaults = {{"min_time_between_cnps", 50},
                                                    {"dce_tcp_rtt", 55},
                                                    {"dce_tcp_g", 1024 - 1024 / 256},
                                                    {"rpg_time_reset", 55},
                                                    {"rpg_byte_reset", 10'000'000 / 64},
                                                    {"rpg_threshold", 5},
                                                    {"rpg_ai_rate", 0},
                                                    {"rpg_hai_rate", 0}};
  for (const Profile profile : {Profile::kDcqcn, Profile::kDelay}) {
    for (const auto& [name, value] : defaults) EXPECT_EQ(Value(profile, name), value) << name;
  }
}

// [cc.settings] Every default lies in the range of its parameter, and names are unique.
TEST(CongestionSettings, DefaultsAreInRange) {
  for (int i = 0; i < kProfiles; ++i) {
    Settings settings = DefaultsOf(static_cast<Profile>(i));
    for (const Parameter& parameter : Parameters()) {
      EXPECT_GE(parameter.of(settings), parameter.least) << parameter.name;
      EXPECT_LE(parameter.of(settings), parameter.most) << parameter.name;
      EXPECT_EQ(FindParameter(parameter.name), &parameter);
    }
  }
  EXPECT_EQ(FindParameter("rpg"), nullptr);
}

TEST(CongestionSettings, Profiles) {
  for (int i = 0; i < kProfiles; ++i) {
    Profile profile = Profile::kOff;
    EXPECT_TRUE(ParseProfile(NameOf(static_cast<Profile>(i)), profile));
    EXPECT_EQ(static_cast<int>(profile), i);
  }
  Profile profile = Profile::kDelay;
  EXPECT_FALSE(ParseProfile("swift", profile));
}

// Section 2: DSCP 26 is priority 3, and 48 is 6.
TEST(CongestionSettings, PriorityOfATrafficClass) {
  EXPECT_EQ(PriorityOf(0x6a), 3u);
  EXPECT_EQ(PriorityOf(0xc2), 6u);
  EXPECT_TRUE(IsEnabled(1 << 3, PriorityOf(0x6a)));
  EXPECT_FALSE(IsEnabled(0xff & ~(1 << 3), PriorityOf(0x6a)));
}

}  // namespace
}  // namespace uroce::congestion
