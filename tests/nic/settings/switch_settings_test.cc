// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/switch_settings.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/nic/settings/made_config.h"

namespace uroce::nic {
namespace {

TEST(SwitchSettingsTest, SwitchMayHaveItsOwnAddressesAndLinksToOthers) {
  const absl::StatusOr<Config> config = FromFlags(
      {"--switch", "name=leaf,ports=2,rate=10G,ip=10.1.0.255/16,link=spine+spine,link-rate=40G",
       "--switch", "name=spine,ports=0"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->devices[1].addresses, std::vector{Address("10.1.1.0/16")});
  EXPECT_EQ(config->switches[0].neighbours, (std::vector<std::string>{"spine", "spine"}));
  EXPECT_EQ(config->switches[0].trunk().rate_bps, 40'000'000'000u);
  EXPECT_EQ(config->switches[0].trunk().delay, Nanos(1'000));
}

// Of 400,000 bytes each of four links has 100,000. After a pause there arrive what is on the way in
// twice the delay, 2 * 10 us * 1 Gb/s = 2,500 bytes, and three frames of 9,018.
TEST(SwitchSettingsTest, PfcLeavesRoomForWhatArrivesAfterAPause) {
  const absl::StatusOr<Config> config =
      FromFlags({"--switch=ports=3,rate=1G,delay=10us,buffer=400K,pfc=on,link=b",
                 "--switch=name=b,ports=1", "--switch=name=c,ports=1,pfc=100K:50K"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->switches[0].config.pfc.on);
  EXPECT_EQ(config->switches[0].config.pfc.xoff_bytes, 100'000u - 2'500 - 3 * 9'018);
  EXPECT_LT(config->switches[0].config.pfc.xon_bytes, config->switches[0].config.pfc.xoff_bytes);
  EXPECT_EQ(config->switches[2].config.pfc.xoff_bytes, 100'000u);
  EXPECT_EQ(config->switches[2].config.pfc.xon_bytes, 50'000u);
}

TEST(SwitchSettingsTest, FileSaysSwitchesAsFlagsDo) {
  const absl::StatusOr<Config> config = FromFile(
      "[[switch]]\nname = \"a\"\nports = 2\nrate = \"1G\"\nlink = [\"b\", \"b\"]\n"
      "[[switch]]\nname = \"b\"\nports = 1\necn = \"off\"\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->devices.size(), 3u);
  EXPECT_EQ(config->switches[0].neighbours.size(), 2u);
  EXPECT_EQ(config->switches[0].link.rate_bps, 1'000'000'000u);
}

TEST(SwitchSettingsTest, ChangesOfASwitchHaveTheWordsOfItsSettings) {
  const auto change = ParseSwitchChange("rate=1G,ecn=off,link=down");
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_EQ(change->rate_bps, 1'000'000'000u);
  EXPECT_FALSE(change->ecn->on);
  EXPECT_EQ(change->is_up, false);
  EXPECT_FALSE(change->delay.has_value());
  EXPECT_FALSE(ParseSwitchChange("rate").ok());
  EXPECT_FALSE(ParseSwitchChange("ports=3").ok());
  EXPECT_FALSE(ParseSwitchChange("link=sideways").ok());
}

}  // namespace
}  // namespace uroce::nic
