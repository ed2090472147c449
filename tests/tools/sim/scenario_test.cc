// SPDX-License-Identifier: Apache-2.0
// Scenarios: what they say becomes networks and flows, and what is wrong is named with file, line
// and key.
#include "tools/sim/scenario/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace uroce::tools::sim {
namespace {

using testing::HasSubstr;

absl::StatusOr<RunPlan> Parse(const std::string& text,
                              const std::vector<Override>& overrides = {}) {
  return PlanOf({.name = "test", .file = "test.toml", .folder = "", .text = text}, overrides);
}

const std::string kHead = "duration = \"1ms\"\n[network]\nhosts = 8\n";
const std::string kFlow = "[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\n";

RunPlan PlanWith(const std::string& workload, const std::string& network = "hosts = 8\n") {
  const auto plan = Parse("duration = \"1ms\"\n[network]\n" + network + workload);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : RunPlan();
}

// [sim.file.ready]
TEST(Scenario, ReadyOnesAreRight) {
  ASSERT_GE(ReadyScenarios().size(), 12u);
  for (const ReadyScenario& each : ReadyScenarios()) {
    const auto plan = Parse(each.text);
    EXPECT_TRUE(plan.ok()) << each.name << ": " << plan.status();
    EXPECT_FALSE(TextOfKey(each.text, "title").empty()) << each.name;
  }
}

struct Wrong {
  std::string text;
  std::string message;
};

// [sim.file.error]
TEST(Scenario, ErrorsNameFileLineAndKey) {
  const std::vector<Wrong> wrongs = {
      {kFlow, "duration: is missing"},
      {kHead, "workload: there is no flow"},
      {kHead + kFlow + "bits = 1\n", "test.toml:8: workload.bits: unknown key"},
      {"duration = \"5\"\n" + kFlow, "test.toml:1: duration: \"5\" is no time with its unit"},
      {kHead + "rate = \"1K\"\n" + kFlow, "test.toml:4: network.rate: \"1K\" is no number from"},
      {kHead + "topology = \"star\"\ndelays = \"1us\"\n" + kFlow,
       "network.delays: unknown key; did you mean delay?"},
      {kHead + "topology = \"tree\"\n" + kFlow, "network.topology: \"tree\" is none of star"},
      {kHead + "[switch]\necn = \"100K\"\n" + kFlow,
       "test.toml:5: switch.ecn: \"100K\" is neither"},
      {kHead + "[switch]\nbuffer = \"10K\"\npfc = \"on\"\n" + kFlow, "too small for PFC"},
      {kHead + "[nic]\ncc = \"bbr\"\n" + kFlow, "test.toml:5: nic.cc: \"bbr\" is none of off"},
      {kHead + "[nic]\ncc.profile = \"dcqcn\"\ncc.rpg_ai = 3\n" + kFlow,
       "unknown parameter rpg_ai"},
      {kHead + "[nic]\nmtu = 1500\n" + kFlow, "nic.mtu: must be 256"},
      {kHead + "[[nic_of]]\nhosts = \"h9\"\n" + kFlow, "nic_of.hosts: there is no host \"h9\""},
      {kHead + "[[link_of]]\nlink = \"h0 - s1\"\n" + kFlow, "there is no link \"h0 - s1\""},
      {kHead + "[[workload]]\nkind = \"poisson\"\n", "workload.bytes: is missing, or sizes"},
      {kHead + "[[workload]]\nname = \"x\"\n", "workload.kind: is missing"},
      {kHead + "[workload]\nkind = \"flow\"\n", "must be written as [[workload]]"},
      {kHead + kFlow + "[[event]]\naction = \"drop\"\nflow = 1\n", "has 1 flows"},
      {kHead + kFlow + "[[event]]\naction = \"link-down\"\nlink = \"h0\"\n", "there is no link"},
      {kHead + "hosts = 9\n" + kFlow, "test.toml:4: "},
      {"duration = \"1ms\"\nwarm_up = \"1ms\"\n" + kFlow, "must be shorter than duration"},
  };
  for (const Wrong& wrong : wrongs) {
    const auto plan = Parse(wrong.text);
    ASSERT_FALSE(plan.ok()) << wrong.text;
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr(wrong.message));
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr("test.toml"));
  }
}

// [sim.file.set]
TEST(Scenario, OverridesReplaceValues) {
  const auto plan = Parse(kHead + kFlow, {{"network.rate", "40G"},
                                          {"workload.0.bytes", "\"3K\""},
                                          {"switch.ecn", "10K:20K:50%"},
                                          {"nic.cc", "delay"}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->network.hosts[7].link.rate_bps, 40'000'000'000u);
  EXPECT_EQ(plan->flows[0].bytes, 3'000u);
  EXPECT_EQ(plan->network.switches[0].config.ecn.min_bytes, 10'000u);
  EXPECT_EQ(plan->network.hosts[0].nic.congestion.profile, congestion::Profile::kDelay);
  EXPECT_FALSE(Parse(kHead + kFlow, {{"workload.1.bytes", "1"}}).ok());
  EXPECT_FALSE(Parse(kHead + kFlow, {{"duration.x", "1"}}).ok());
}

// [sim.file.some]
TEST(Scenario, SettingsOfSomeHostsAndLinksDiffer) {
  const RunPlan plan = PlanWith(
      kFlow +
      "[nic]\nmtu = 1024\n[[nic_of]]\nhosts = [\"h1..h3\", \"h7\"]\ncc.profile = \"dcqcn\"\n"
      "cc.rpg_ai_rate = 7\nnotification_point = false\n[[link_of]]\nlink = \"s0 - h2\"\nloss = "
      "\"1%\"\n");
  EXPECT_EQ(plan.network.hosts[1].nic.congestion.rp.rpg_ai_rate, 7u);
  EXPECT_EQ(plan.network.hosts[7].nic.congestion.np.np_enable, 0u);
  EXPECT_NE(plan.network.hosts[4].nic.congestion.np.np_enable, 0u);
  EXPECT_EQ(plan.network.hosts[7].nic.mtu_bytes, 1'024u);
  EXPECT_DOUBLE_EQ(plan.network.hosts[2].link.loss, 0.01);
  EXPECT_EQ(plan.network.hosts[3].link.loss, 0);
}

// [sim.file.tree]
TEST(Scenario, AFatTreeHasItsLinks) {
  const RunPlan plan = PlanWith(kFlow,
                                "topology = \"fat-tree\"\npods = 4\nracks_of_pod = 2\n"
                                "hosts_of_rack = 16\nuplinks = 2\n");
  EXPECT_EQ(plan.network.hosts.size(), 128u);
  EXPECT_EQ(plan.network.switches.size(), 8u + 8u + 4u);
  EXPECT_EQ(plan.network.trunks.size(), 16u + 16u);
  EXPECT_EQ(plan.network.NameOfCable(128), "tor0 - aggregation0");
}

// [sim.file.custom]
TEST(Scenario, ANetworkMayBeSpeltOut) {
  const RunPlan plan = PlanWith(
      "[[network.switches]]\nname = \"a\"\n[[network.switches]]\nname = \"b\"\n"
      "[[network.hosts]]\nname = \"left\"\nswitch = \"a\"\nrate = \"1G\"\n"
      "[[network.hosts]]\nname = \"right\"\nswitch = \"b\"\n"
      "[[network.links]]\nbetween = [\"a\", \"b\"]\ndelay = \"1ms\"\n"
      "[[workload]]\nkind = \"flow\"\nfrom = \"left\"\nto = \"right\"\n",
      "topology = \"custom\"\n");
  EXPECT_EQ(plan.network.hosts[0].link.rate_bps, 1'000'000'000u);
  EXPECT_EQ(plan.network.trunks[0].link.delay, Nanos(1'000'000));
  EXPECT_EQ(plan.flows[0].to, 1u);
}

// [sim.work.permutation]
TEST(Workload, APermutationReachesEachHostOnce) {
  const RunPlan plan = PlanWith("[[workload]]\nkind = \"permutation\"\n");
  std::set<uint32_t> from, to;
  for (const FlowPlan& flow : plan.flows) {
    EXPECT_NE(flow.from, flow.to);
    from.insert(flow.from);
    to.insert(flow.to);
  }
  EXPECT_EQ(from.size(), 8u);
  EXPECT_EQ(to.size(), 8u);
}

// [sim.work.all-to-all]
TEST(Workload, AllToAllHasEachPairOnceAndRounds) {
  const RunPlan plan = PlanWith("[[workload]]\nkind = \"all-to-all\"\nbytes = 1000\n");
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  uint32_t at_once = 0;
  for (const FlowPlan& flow : plan.flows) {
    pairs.emplace(flow.from, flow.to);
    at_once += flow.waits_for == 0;
  }
  EXPECT_EQ(pairs.size(), 56u);
  EXPECT_EQ(plan.flows.size(), 56u);
  EXPECT_EQ(at_once, 8u);
}

// [sim.work.all-reduce]
TEST(Workload, AllReduceTakesTwoRoundsOfTheRing) {
  const RunPlan plan = PlanWith("[[workload]]\nkind = \"all-reduce\"\nbytes = 8000\n");
  EXPECT_EQ(plan.flows.size(), 2u * 7 * 8);
  for (const FlowPlan& flow : plan.flows) {
    EXPECT_EQ(flow.bytes, 1'000u);
    EXPECT_EQ(flow.to, (flow.from + 1) % 8);
  }
  EXPECT_EQ(plan.flows[8].waits_for, 2u);
}

// [sim.work.poisson]
TEST(Workload, PoissonArrivalsHaveTheirLoad) {
  const auto parsed = Parse(
      "duration = \"100ms\"\n[network]\nhosts = 16\nrate = \"25G\"\n"
      "[[workload]]\nkind = \"poisson\"\nsizes = \"hadoop\"\nload = \"40%\"\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  double bits = 0;
  for (const FlowPlan& flow : parsed->flows) bits += 8.0 * static_cast<double>(flow.bytes);
  EXPECT_NEAR(bits / (0.1 * 16 * 25e9), 0.4, 0.04);
}

// [sim.work.incast]
TEST(Workload, RoundsOfAnIncastFollowEachOther) {
  const RunPlan plan = PlanWith(
      "[[workload]]\nkind = \"incast\"\nsenders = 3\nbytes = 100\nrounds = 2\npause = \"5us\"\n");
  ASSERT_EQ(plan.flows.size(), 6u);
  EXPECT_EQ(plan.flows[5].waits_for, 3u);
  EXPECT_EQ(plan.flows[5].start, Nanos(5'000));
  EXPECT_EQ(plan.flows[0].then.size(), 3u);
}

}  // namespace
}  // namespace uroce::tools::sim
