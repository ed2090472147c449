// SPDX-License-Identifier: Apache-2.0
// What may change while the daemon runs, and what one clear line refuses.
#include "nic/settings/config.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nic/settings/config_file.h"
#include "nic/settings/congestion_settings.h"
#include "nic/settings/daemon_settings.h"

namespace uroce::nic {
namespace {

Config Read(const std::string& text) {
  const auto settings = ParseConfigFile(text, "uroced.toml");
  EXPECT_TRUE(settings.ok()) << settings.status();
  if (!settings.ok()) return {};
  const auto config = MakeConfig(*settings, "/run/s");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : Config();
}

constexpr char kNow[] = R"(
workers = 2
[limits]
max_qp = 100
[[port]]
name = "p0"
iface = "lo"
rate = "10G"
[[wire]]
a = "10.0.0.1/24"
b = "10.0.0.2/24"
[[switch]]
name = "sw0"
ip = "10.1.0.1/24"
ports = 2
)";

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ConfigChangeTest, TheSameSettingsAreNoChange) {
  EXPECT_TRUE(CheckChange(Read(kNow), Read(kNow)).ok());
  EXPECT_TRUE(ChangedKeys(Read(kNow), Read(kNow)).empty());
}

// It has chosen, and this machine may have other CPUs by now.
TEST(ConfigChangeTest, AChoiceOfTheDaemonIsNoChange) {
  const std::string text = Replaced(kNow, "workers = 2", "workers = \"auto\"");
  Config now = Read(text);
  now.workers = 4;
  now.usable_cpus = 16;
  EXPECT_TRUE(CheckChange(now, Read(text)).ok());
  EXPECT_TRUE(ChangedKeys(now, Read(text)).empty());
}

TEST(ConfigChangeTest, LimitsTheLogAndNicsMayChange) {
  const std::string text =
      Replaced(Replaced(Replaced(kNow, "workers", "log_level = \"debug\"\nworkers"), "= 100",
                        "= 7\nmax_rate_per_user = \"1G\""),
               "10G", "5G\"\ncc = \"delay");
  const Config now = Read(kNow);
  EXPECT_EQ(ChangedKeys(now, Read(text)),
            (std::vector<std::string>{"log_level", "limits.max_rate_per_user", "limits.max_qp",
                                      "p0.rate", "p0.cc"}));
  EXPECT_TRUE(CheckChange(now, Read(text)).ok());
}

TEST(ConfigChangeTest, FaultsMayChange) {
  const Config next =
      Read("fault = [\"a:drop=0.5\", \"p0:rule=drop,nth=3\"]\n" + std::string(kNow));
  EXPECT_EQ(FindNic(next, "a")->fault.text, "drop=0.5");
  EXPECT_EQ(FindNic(next, "p0")->fault.text, "rule=drop,nth=3");
  EXPECT_TRUE(CheckChange(Read(kNow), next).ok());
  EXPECT_EQ(ChangedKeys(Read(kNow), next), (std::vector<std::string>{"p0.fault", "a.fault"}));
}

TEST(ConfigChangeTest, OtherChangesAreRefusedByTheirKeys) {
  struct {
    const char* from;
    const char* to;
    const char* said;
  } constexpr kRefused[] = {
      {"workers = 2", "workers = 3", "workers: "},
      {"workers = 2", "workers = \"auto\"", "workers: "},
      {"max_qp = 100", "max_total_mr = 100", "limits.max_total_mr: "},
      {"max_qp = 100", "profile = \"laptop\"", "limits.profile: "},
      {"iface = \"lo\"", "iface = \"eth0\"", "p0.iface, udp or dev: "},
      {"iface = \"lo\"", "iface = \"lo\"\nmtu = 1500", "p0.mtu: "},
      {"iface = \"lo\"", "iface = \"lo\"\nselective-repeat = \"off\"", "p0.selective-repeat: "},
      {"b = \"10.0.0.2/24\"", "b = \"10.0.0.3/24\"", "b.ip: "},
      {"b = ", "c = ", "c: a NIC is added"},
      {"[[wire]]", "[[port]]\nname = \"p1\"\niface = \"lo\"\n[[wire]]", "p1: a NIC is added"},
      {"ports = 2", "ports = 1", "sw0: "},
      {"ports = 2", "ports = 2\nbuffer = \"2M\"", "sw0: "},
  };
  for (const auto& refused : kRefused) {
    const absl::Status status =
        CheckChange(Read(kNow), Read(Replaced(kNow, refused.from, refused.to)));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << refused.to;
    EXPECT_EQ(status.message().find(refused.said), 0u) << refused.to << ": " << status;
  }
}

TEST(ConfigChangeTest, NicsAreKnownByTheirNames) {
  const Config now = Read(
      "[[wire]]\na = \"10.0.0.1/24\"\nb = \"10.0.0.2/24\"\n"
      "[[wire]]\nc = \"10.0.1.1/24\"\nd = \"10.0.1.2/24\"\n");
  const Config other_order = Read(
      "[[wire]]\nd = \"10.0.1.2/24\"\nc = \"10.0.1.1/24\"\n"
      "[[wire]]\na = \"10.0.0.1/24\"\nb = \"10.0.0.2/24\"\n");
  EXPECT_TRUE(CheckChange(now, other_order).ok());
  const Config other_ends = Read(
      "[[wire]]\na = \"10.0.0.1/24\"\nd = \"10.0.1.2/24\"\n"
      "[[wire]]\nc = \"10.0.1.1/24\"\nb = \"10.0.0.2/24\"\n");
  EXPECT_EQ(CheckChange(now, other_ends).message().find("a: a wire or switch changes"), 0u);
}

TEST(ConfigChangeTest, OneNicOfAWireOrSwitchHasItsOwnKeys) {
  const Config config = Read(
      "[[wire]]\na = \"10.0.0.1/24\"\nb = \"10.0.0.2/24\"\nrate = \"2G\"\n\"b.rate\" = \"1G\"\n"
      "\"b.cc\" = \"delay\"\n"
      "[[switch]]\nports = 2\nip = \"10.1.0.1/24\"\nuroce1.cc.rpg_ai_rate = 7\nuroce1.rate = "
      "\"off\"\n");
  EXPECT_EQ(FindNic(config, "a")->rate_bps, 2'000'000'000u);
  EXPECT_EQ(FindNic(config, "b")->rate_bps, 1'000'000'000u);
  EXPECT_TRUE(CongestionFields(FindNic(config, "a")->congestion).empty());
  using Fields = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(CongestionFields(FindNic(config, "uroce1")->congestion),
            (Fields{{"cc.rpg_ai_rate", "7"}}));
  EXPECT_TRUE(CongestionFields(FindNic(config, "uroce0")->congestion).empty());
}

TEST(ConfigChangeTest, KeysOfNicsThatAreNotThereAreRefused) {
  for (const char* key : {"c.rate", "b.mtu"}) {
    const auto settings = ParseConfigFile("[[wire]]\na = \"10.0.0.1/24\"\nb = \"10.0.0.2/24\"\n\"" +
                                              std::string(key) + "\" = \"1G\"\n",
                                          "uroced.toml");
    ASSERT_TRUE(settings.ok()) << settings.status();
    const auto config = MakeConfig(*settings, "/run/s");
    EXPECT_FALSE(config.ok());
    EXPECT_NE(config.status().message().find(std::string("\"") + key + "\" is no NIC of it"),
              std::string::npos)
        << config.status();
  }
}

TEST(ConfigChangeTest, ValuesAreReadAsTheyAreWritten) {
  const Config config = Read(kNow);
  EXPECT_EQ(ValueOf("workers", config), "2");
  EXPECT_EQ(ValueOf("max_qp", config), "100");
  EXPECT_EQ(ValueOf("log_level", config), "info");
  EXPECT_EQ(ValueOf("log_format", config), "text");
  EXPECT_EQ(ValueOf("no_huge", config), "false");
  EXPECT_EQ(ValueOf("max_rate_per_user", config), "");
  EXPECT_EQ(ValueOf("metrics", config), "");
  for (const SettingInfo& info : SettingInfos()) {
    const std::string value = ValueOf(info.key, config);
    if (value.empty()) continue;
    Config again = config;
    EXPECT_TRUE(ChangeConfig({{info.key, info.key, value, {}}}, again).ok()) << info.key;
    EXPECT_EQ(ValueOf(info.key, again), value);
  }
}

TEST(ConfigChangeTest, AWrongSettingChangesNone) {
  Config config = Read(kNow);
  EXPECT_FALSE(
      ChangeConfig({{"log_level", "log_level", "debug", {}}, {"max_qp", "max_qp", "0", {}}}, config)
          .ok());
  EXPECT_EQ(config.log_level, "info");
}

}  // namespace
}  // namespace uroce::nic
