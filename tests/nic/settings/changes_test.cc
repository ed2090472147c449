// SPDX-License-Identifier: Apache-2.0
// One text means the same, and fails with the same words, at the start (--port, --fault) and while
// the daemon runs (uroce cc set, fault set, port set).
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "nic/settings/congestion_settings.h"
#include "nic/settings/port_settings.h"
#include "tests/nic/settings/made_config.h"

namespace uroce::nic {
namespace {

constexpr char kPort[] = "--port=name=p,dev=net_null0";

/// What came of one way: the device, or words without the name of the way.
struct Outcome {
  std::string way;
  absl::Status status;
  DeviceConfig device;

  std::string words() const {
    absl::string_view text = status.message();
    for (const char* origin : {"--port: ", "--fault: ", "p: ", "cc: "}) {
      if (absl::ConsumePrefix(&text, origin)) break;
    }
    return std::string(text);
  }
};

DeviceConfig Port() { return FromFlags({kPort})->devices[0]; }

Outcome AtStart(std::string way, const std::vector<std::string>& flags) {
  const absl::StatusOr<Config> config = FromFlags(flags);
  return {std::move(way), config.status(), config.ok() ? config->devices[0] : DeviceConfig{}};
}

template <typename Change>
Outcome WhileItRuns(std::string way, const Change& change) {
  DeviceConfig device = Port();
  absl::Status status = change(device);
  return {std::move(way), std::move(status), std::move(device)};
}

void ExpectTheSame(const std::vector<Outcome>& outcomes, bool is_good, const std::string& text) {
  for (const Outcome& each : outcomes) {
    EXPECT_EQ(each.status.ok(), is_good) << each.way << " " << text << ": " << each.status;
    EXPECT_EQ(each.words(), outcomes[0].words()) << each.way << " " << text;
    if (!is_good) continue;
    EXPECT_EQ(each.device.fault.text, outcomes[0].device.fault.text) << each.way << " " << text;
    EXPECT_EQ(CongestionFields(each.device.congestion),
              CongestionFields(outcomes[0].device.congestion))
        << each.way << " " << text;
  }
}

std::vector<Outcome> OfCongestion(const std::string& text) {
  std::vector<Outcome> outcomes{
      AtStart("--port", {absl::StrCat(kPort, ",", text)}),
      WhileItRuns("cc set",
                  [&](auto& device) { return ChangeCongestion(text, device.congestion); }),
      WhileItRuns("port set", [&](auto& device) { return ChangePort(text, device); })};
  const std::string bare = absl::StrReplaceAll(text, {{"cc=", "profile="}, {"cc.", ""}});
  outcomes.push_back(WhileItRuns("cc set, without cc.", [&](auto& device) {
    return ChangeCongestion(bare, device.congestion);
  }));
  return outcomes;
}

TEST(ChangesTest, CongestionControlHasOneGrammar) {
  for (const char* text : {"cc=dcqcn", "cc=off", "cc.3=delay", "cc.rpg_ai_rate=7",
                           "cc.rpg_gd=12,cc=dcqcn-mlx,cc.5=off", " cc=dcqcn , cc.3=off"}) {
    ExpectTheSame(OfCongestion(text), true, text);
  }
  EXPECT_EQ(OfCongestion("cc=dcqcn")[1].device.congestion.profile, congestion::Profile::kDcqcn);
  for (const char* text :
       {"cc=swift", "cc=", "cc.8=off", "cc.03=off", "cc.3=on", "cc.rpg_gd=16", "cc.rpg_gd=x",
        "cc.hai=60", "cc.rpg_gd=1,cc.rpg_gd=2", "cc=dcqcn,cc=delay"}) {
    ExpectTheSame(OfCongestion(text), false, text);
  }
}

std::vector<Outcome> OfFaults(const std::string& text) {
  const std::string field = absl::StrCat("fault=", text);
  return {AtStart("--port", {absl::StrCat(kPort, ",", field)}),
          AtStart("--fault", {kPort, absl::StrCat("--fault=p:", text)}),
          WhileItRuns("fault set", [&](auto& device) { return SetFault(text, device); }),
          WhileItRuns("fault set, with commas",
                      [&](auto& device) {
                        return SetFault(absl::StrReplaceAll(text, {{";", ","}}), device);
                      }),
          WhileItRuns("port set", [&](auto& device) { return ChangePort(field, device); })};
}

TEST(ChangesTest, FaultsHaveOneGrammar) {
  for (const char* text : {"drop=0.01", "off", "link=down", "drop=0.01;delay=10us;dir=tx;seed=3",
                           "rule=drop;opcode=ACK;nth=3", "rule=delay:5us;rule=reorder:3"}) {
    ExpectTheSame(OfFaults(text), true, text);
  }
  EXPECT_EQ(OfFaults("drop=0.01;seed=3")[4].device.fault.seed, 3u);
  for (const char* text : {"drop=2", "explode=0.1", "drop", "", "drop=0.1;;", "off;drop=0.1",
                           "rule=delay:2s", "rule=drop;nth=0", "dir=up"}) {
    ExpectTheSame(OfFaults(text), false, text);
  }
}

TEST(ChangesTest, FaultsAreReplacedAndOffEndsThem) {
  DeviceConfig device = Port();
  ASSERT_TRUE(ChangePort("fault=drop=0.5", device).ok());
  ASSERT_TRUE(ChangePort("fault=delay=1us", device).ok());
  EXPECT_EQ(device.fault.drop, 0);
  ASSERT_TRUE(SetFault("off", device).ok());
  EXPECT_TRUE(device.fault.is_harmless());
}

TEST(ChangesTest, AWrongFieldChangesNoneOfAPort) {
  DeviceConfig device = Port();
  const absl::Status status = ChangePort("rate=5G,fault=drop=2,cc=delay", device);
  EXPECT_EQ(status.message().find("p: "), 0u) << status;
  EXPECT_EQ(device.rate_bps, 0u);
  EXPECT_FALSE(device.congestion.profile.has_value());
  EXPECT_EQ(ChangePort("mtu=1500", device).message(),
            "p: \"mtu\" does not change while the daemon runs; rate, fault, cc, cc.PRIORITY and "
            "cc.PARAMETER do");
}

}  // namespace
}  // namespace uroce::nic
