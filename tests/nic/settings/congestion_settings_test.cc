// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/congestion_settings.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/nic/settings/made_config.h"

namespace uroce::nic {
namespace {

TEST(PortCongestionTest, CongestionControlIsByDelayOnAPortAndOffOnAWire) {
  using congestion::Profile;
  const absl::StatusOr<Config> config = FromFlags(
      {"--port=name=a,dev=net_null0", "--port=name=b,dev=net_null1,cc.rpg_ai_rate=7,cc=dcqcn-mlx",
       "--wire=c=10.0.0.1,d=10.0.0.2", "--wire=e=10.0.0.3,cc=dcqcn,f=10.0.0.4,cc.cnp_dscp=46"});
  ASSERT_TRUE(config.ok()) << config.status();
  std::vector<Profile> profiles;
  for (const DeviceConfig& device : config->devices) {
    profiles.push_back(CongestionOf(device).profile);
  }
  EXPECT_EQ(profiles, (std::vector{Profile::kDelay, Profile::kDcqcnMlx, Profile::kOff,
                                   Profile::kOff, Profile::kDcqcn, Profile::kDcqcn}));
  EXPECT_EQ(CongestionOf(config->devices[1]).rp.rpg_ai_rate, 7u);
  EXPECT_EQ(CongestionOf(config->devices[1]).rp.rpg_hai_rate, 50u);
  EXPECT_EQ(CongestionOf(config->devices[5]).np.cnp_dscp, 46u);
}

TEST(PortCongestionTest, CongestionControlOfASwitchIsThatOfItsNics) {
  const absl::StatusOr<Config> config =
      FromFlags({"--switch=ports=2,cc=dcqcn-mlx,cc.rpg_gd=12", "--switch=name=sw1,ports=2"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(CongestionOf(config->devices[1]).profile, congestion::Profile::kDcqcnMlx);
  EXPECT_EQ(CongestionOf(config->devices[1]).rp.rpg_gd, 12u);
  EXPECT_EQ(CongestionOf(config->devices[2]).profile, congestion::Profile::kDelay);
}

TEST(PortCongestionTest, APriorityMayHaveItsOwnProfile) {
  using congestion::Profile;
  const absl::StatusOr<Config> config =
      FromFlags({"--port=name=a,dev=net_null0,cc.3=delay,cc.5=off,cc=dcqcn-mlx,cc.rpg_gd=12"});
  ASSERT_TRUE(config.ok()) << config.status();
  const auto settings = CongestionOfPriorities(config->devices[0]);
  EXPECT_EQ(settings[0].profile, Profile::kDcqcnMlx);
  EXPECT_EQ(settings[3].profile, Profile::kDelay);
  EXPECT_EQ(settings[5].profile, Profile::kOff);
  EXPECT_EQ(settings[3].np.min_time_between_cnps, 50u) << "the defaults of its profile";
  EXPECT_EQ(settings[7].np.min_time_between_cnps, 4u);
  EXPECT_EQ(settings[3].rp.rpg_gd, 12u);
  for (const char* bad : {"cc.8=off", "cc.03=off", "cc.3=on"}) {
    const auto refused = FromFlags({absl::StrCat("--port=name=a,dev=net_null0,", bad)});
    EXPECT_FALSE(refused.ok()) << bad;
  }
  DeviceConfig device = config->devices[0];
  ASSERT_TRUE(ChangeCongestion("3=off", device.congestion).ok());
  EXPECT_EQ(CongestionOfPriorities(device)[3].profile, Profile::kOff);
}

TEST(PortCongestionTest, CongestionControlHasTheSameNamesInFiles) {
  const absl::StatusOr<Config> config = FromFile(
      "[[port]]\nname = \"a\"\ndev = \"net_null0\"\ncc = \"dcqcn\"\n\"cc.rpg_threshold\" = 3\n");
  ASSERT_TRUE(config.ok()) << config.status();
  const congestion::Settings settings = CongestionOf(config->devices[0]);
  EXPECT_EQ(settings.profile, congestion::Profile::kDcqcn);
  EXPECT_EQ(settings.rp.rpg_threshold, 3u);
}

TEST(PortCongestionTest, CongestionControlIsChangedByHandAsAWhole) {
  DeviceConfig device;
  device.congestion.profile = congestion::Profile::kDcqcn;
  ASSERT_TRUE(
      ChangeCongestion("rpg_ai_rate=7,profile=dcqcn-mlx,rpg_gd=12", device.congestion).ok());
  EXPECT_EQ(CongestionOf(device).profile, congestion::Profile::kDcqcnMlx);
  EXPECT_EQ(CongestionOf(device).rp.rpg_ai_rate, 7u);
  EXPECT_EQ(CongestionOf(device).rp.rpg_gd, 12u);
  EXPECT_EQ(CongestionOf(device).rp.rpg_hai_rate, 50u);
  ASSERT_TRUE(ChangeCongestion("rpg_ai_rate=9", device.congestion).ok());
  EXPECT_EQ(CongestionOf(device).rp.rpg_ai_rate, 9u);
  EXPECT_EQ(device.congestion.parameters.size(), 2u);
  for (const char* bad : {"rpg_hai_rate=60,rpg_gd=16", "rpg_hai_rate=60,profile=on", "hai=60",
                          "rpg_hai_rate", "", "rpg_hai_rate=60,rpg_hai_rate=61"}) {
    EXPECT_EQ(ChangeCongestion(bad, device.congestion).code(), absl::StatusCode::kInvalidArgument)
        << bad;
  }
  EXPECT_EQ(CongestionOf(device).rp.rpg_hai_rate, 50u);
}

}  // namespace
}  // namespace uroce::nic
