// SPDX-License-Identifier: Apache-2.0
// Runs of small networks whose outcome is known: by arithmetic, by the rules of the transport, or
// by those of switches.
#include "tools/sim/model/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tools/sim/report/report.h"
#include "tools/sim/scenario/flow_sizes.h"

namespace uroce::tools::sim {
namespace {

constexpr uint64_t kGigabit = 1'000'000'000;

/// `hosts` of 10 Gb/s at one switch, without congestion control.
RunPlan Star(uint32_t hosts, congestion::Profile profile = congestion::Profile::kOff) {
  RunPlan plan;
  plan.network.switches = {{"s0", {.buffer_bytes = 1'000'000}}};
  for (uint32_t i = 0; i < hosts; ++i) {
    plan.network.hosts.push_back({"h" + std::to_string(i),
                                  0,
                                  {.rate_bps = 10 * kGigabit, .delay = Nanos(1'000)},
                                  {.congestion = congestion::DefaultsOf(profile), .timeout = 8}});
  }
  plan.groups = {"all"};
  plan.duration = Nanos(50'000'000);
  return plan;
}

Results RunOf(const RunPlan& plan) { return Run(plan, {}); }

void MarkAbove(RunPlan& plan, uint32_t bytes) {
  plan.network.switches[0].config.ecn = {
      .on = true, .min_bytes = bytes, .max_bytes = bytes, .max_probability = 1};
}

// [sim.time]
TEST(SimRun, AFlowAloneTakesTheTimeOfItsBits) {
  for (const Operation operation : {Operation::kWrite, Operation::kRead, Operation::kSend}) {
    RunPlan plan = Star(2);
    plan.flows = {{.from = 0, .to = 1, .operation = operation, .bytes = 1'000'000}};
    const Results results = RunOf(plan);
    ASSERT_EQ(results.groups[0].finished, 1u);
    EXPECT_GE(results.slowdowns[0], 1);
    EXPECT_LT(results.slowdowns[0], 1.01) << "operation " << static_cast<int>(operation);
    EXPECT_EQ(results.totals.retransmitted, 0u);
    EXPECT_EQ(results.totals.tail_drops + results.totals.marks, 0u);
  }
}

// [sim.time.idle]
TEST(SimRun, IdleTimeIsTheSumOfBitsAndDelays) {
  RunPlan plan = Star(2);
  // One packet of 1,000 bytes: Ethernet, IP, UDP, BTH, ICRC, FCS, preamble and gap are 82 bytes
  // more; the acknowledgement has an AETH and no payload.
  const Nanos time = IdleTimes(plan.network).Of({.from = 0, .to = 1, .bytes = 1'000});
  const double bits = 2 * (1'082 + 86) * 8;
  EXPECT_EQ(time.count(), static_cast<int64_t>(bits / 10) + 4'000);
}

/// A transfer whose 20th packet is lost, between NICs that repeat selectively or do not.
Totals WithALoss(bool sender_repeats_selectively, bool receiver_repeats_selectively) {
  RunPlan plan = Star(2);
  plan.network.hosts[0].nic.selective_repeat = sender_repeats_selectively;
  plan.network.hosts[1].nic.selective_repeat = receiver_repeats_selectively;
  plan.flows = {{.from = 0, .to = 1, .bytes = 1'000'000}};
  plan.packet_events = {{.flow = 0, .packet = 20, .is_lost = true}};
  const Results results = RunOf(plan);
  EXPECT_EQ(results.totals.scripted_drops, 1u);
  EXPECT_EQ(results.groups[0].finished, 1u);
  return results.totals;
}

// [sim.repeat.both sim.repeat.one sim.event]
TEST(SimRun, ALostPacketAloneIsSentAgainWhereBothEndsRepeatSelectively) {
  EXPECT_EQ(WithALoss(true, true).retransmitted, 1u);
  const Totals neither = WithALoss(false, false);
  EXPECT_GT(neither.retransmitted, 1u);
  for (const bool sender : {true, false}) {
    const Totals one = WithALoss(sender, !sender);
    EXPECT_EQ(one.retransmitted, neither.retransmitted) << "sender " << sender;
    EXPECT_EQ(one.sequence_naks, 1u);
    EXPECT_EQ(one.kept, 0u);
    EXPECT_EQ(one.probes + one.timeouts, 0u);
  }
}

// [sim.repeat.read]
TEST(SimRun, TheLastPacketOfAReadThatIsLostIsAskedForAgain) {
  RunPlan plan = Star(2);
  plan.flows = {{.from = 0, .to = 1, .operation = Operation::kRead, .bytes = 40'960}};
  plan.packet_events = {{.flow = 0, .packet = 10, .is_lost = true}};
  const Results results = RunOf(plan);
  EXPECT_EQ(results.totals.scripted_drops, 1u);
  EXPECT_EQ(results.groups[0].finished, 1u);
  EXPECT_GT(results.totals.timeouts + results.totals.probes, 0u);
}

// [sim.mark.agreed sim.event]
TEST(SimRun, AMarkSlowsItsFlowWhereBothEndsAgree) {
  const auto cnps = [](bool answers, bool reacts) {
    RunPlan plan = Star(2, congestion::Profile::kDcqcn);
    plan.network.hosts[1].nic.congestion.np.np_enable = answers ? 0xff : 0;
    plan.network.hosts[0].nic.congestion.rp.rp_enable = reacts ? 0xff : 0;
    plan.flows = {{.from = 0, .to = 1, .bytes = 1'000'000}};
    plan.packet_events = {{.flow = 0, .packet = 5, .is_lost = false}};
    const Results results = RunOf(plan);
    EXPECT_EQ(results.groups[0].finished, 1u);
    return std::pair(results.totals.cnps, results.times_us[0]);
  };
  const auto usual = cnps(true, true);
  EXPECT_EQ(usual.first, 1u);
  EXPECT_EQ(cnps(false, true).first, 0u);
  EXPECT_LT(cnps(false, true).second, usual.second);
  EXPECT_LT(cnps(true, false).second, usual.second);
}

// [sim.mark.queue sim.number.goodput]
TEST(SimRun, MarksKeepTheQueueShortAndSharesEqual) {
  RunPlan plan = Star(5, congestion::Profile::kDcqcn);
  MarkAbove(plan, 50'000);
  for (uint32_t i = 1; i <= 4; ++i) {
    plan.flows.push_back({.from = i, .to = 0, .message_bytes = 16'384, .depth = 64});
  }
  plan.warm_up = Nanos(20'000'000);
  const Results results = RunOf(plan);
  EXPECT_GT(results.totals.jain, 0.98);
  EXPECT_GT(results.totals.goodput_bps, 9e9);
  EXPECT_LT(results.totals.mean_queue_bytes, 100'000);
  EXPECT_GT(results.totals.cnps, 0u);
}

// [sim.pfc]
TEST(SimRun, PfcLosesNothing) {
  RunPlan plan = Star(9);
  fabric::SwitchConfig& config = plan.network.switches[0].config;
  config.pfc = fabric::LosslessPfc(config.buffer_bytes, 9, plan.network.hosts[0].link, 4'170);
  ASSERT_TRUE(config.pfc.on);
  for (uint32_t i = 1; i <= 8; ++i) {
    plan.flows.push_back({.from = i, .to = 0, .bytes = 2'000'000});
  }
  const Results results = RunOf(plan);
  EXPECT_EQ(results.totals.tail_drops, 0u);
  EXPECT_EQ(results.totals.retransmitted, 0u);
  EXPECT_GT(results.totals.pauses, 0u);
  EXPECT_EQ(results.groups[0].finished, 8u);
  EXPECT_FALSE(results.is_deadlocked);
}

// [sim.buffer]
TEST(SimRun, AFullBufferDropsAndAllArrivesAllTheSame) {
  RunPlan plan = Star(9);
  plan.network.switches[0].config.buffer_bytes = 100'000;
  for (uint32_t i = 1; i <= 8; ++i) plan.flows.push_back({.from = i, .to = 0, .bytes = 200'000});
  const Results results = RunOf(plan);
  EXPECT_GT(results.totals.tail_drops, 0u);
  EXPECT_GE(results.totals.retransmitted, results.totals.tail_drops / 2);
  EXPECT_EQ(results.groups[0].finished, 8u);
}

// [sim.loss sim.number.drops]
TEST(SimRun, LinesLoseTheirPart) {
  RunPlan plan = Star(2);
  for (Network::Host& host : plan.network.hosts) host.link.loss = 0.01;
  plan.flows = {{.from = 0, .to = 1, .bytes = 20'000'000, .depth = 4}};
  const Results results = RunOf(plan);
  EXPECT_EQ(results.groups[0].finished, 1u);
  const double part = static_cast<double>(results.totals.losses) /
                      static_cast<double>(results.totals.packet_events);
  EXPECT_NEAR(part, 0.01, 0.003);
  // Of the link to the receiver, which has no other drops.
  const auto to_receiver = std::ranges::find(results.links, "s0 -> h1", &LinkResult::name);
  ASSERT_NE(to_receiver, results.links.end());
  EXPECT_NEAR(static_cast<double>(to_receiver->drops) / static_cast<double>(to_receiver->frames),
              0.01, 0.003);
  // The host's own line loses frames too. It is no link with a queue.
  const auto of_sender = std::ranges::find(results.drops, "h0 -> s0", &LinkDrops::name);
  ASSERT_NE(of_sender, results.drops.end());
  EXPECT_NEAR(static_cast<double>(of_sender->losses) / static_cast<double>(of_sender->frames), 0.01,
              0.005);
  EXPECT_EQ(std::ranges::count(results.links, "h0 -> s0", &LinkResult::name), 0);
  uint64_t losses = 0;
  for (const LinkDrops& each : results.drops) losses += each.losses;
  EXPECT_EQ(losses, results.totals.losses);
}

// [sim.late]
TEST(SimRun, LateFramesAreNotLost) {
  RunPlan plan = Star(2);
  plan.network.hosts[1].nic.reorder = 0.05;
  plan.network.hosts[1].nic.reorder_delay = Nanos(20'000);
  plan.flows = {{.from = 0, .to = 1, .bytes = 5'000'000}};
  const Results results = RunOf(plan);
  EXPECT_EQ(results.groups[0].finished, 1u);
  EXPECT_GT(results.totals.reordered, 20u);
}

// [sim.gone]
TEST(SimRun, APeerThatIsGoneFailsItsFlow) {
  RunPlan plan = Star(2);
  plan.duration = Nanos(2'000'000'000);
  for (Network::Host& host : plan.network.hosts) host.nic.retry_count = 2;
  plan.flows = {{.from = 0, .to = 1, .bytes = 10'000'000}};
  plan.network_events = {{.at = Nanos(1'000'000), .number = 1}};
  const Results results = RunOf(plan);
  EXPECT_EQ(results.groups[0].failed, 1u);
  EXPECT_EQ(results.groups[0].finished, 0u);
  EXPECT_GT(results.totals.down_drops + results.totals.no_path, 0u);
}

// [sim.way]
TEST(SimRun, ALinkThatFailsSendsFramesTheOtherWay) {
  RunPlan plan = Star(2);
  plan.network.switches.assign(4, plan.network.switches[0]);
  plan.network.hosts[1].switch_index = 3;
  const fabric::LinkConfig link{.rate_bps = 10 * kGigabit, .delay = Nanos(1'000)};
  plan.network.trunks = {{0, 1, link}, {0, 2, link}, {1, 3, link}, {2, 3, link}};
  plan.flows = {{.from = 0, .to = 1, .bytes = 20'000'000}};
  for (const uint32_t trunk : {0u, 1u}) {
    plan.network_events = {{.at = Nanos(5'000'000), .number = plan.network.CableOfTrunk(trunk)}};
    const Results results = RunOf(plan);
    EXPECT_EQ(results.groups[0].finished, 1u);
    EXPECT_LT(results.slowdowns[0], 1.5);
  }
}

// [sim.pfc.deadlock]
TEST(SimRun, PausesInACircleAreADeadlock) {
  RunPlan plan = Star(5);
  plan.network.switches.assign(5, {"s", {.buffer_bytes = 4'000'000}});
  for (Network::Switch& each : plan.network.switches) {
    each.config.pfc = {.on = true, .xoff_bytes = 50'000, .xon_bytes = 40'000};
  }
  for (uint32_t i = 0; i < 5; ++i) {
    plan.network.hosts[i].switch_index = i;
    plan.network.trunks.push_back({i, (i + 1) % 5, {.rate_bps = 10 * kGigabit}});
    plan.flows.push_back({.from = i, .to = (i + 2) % 5, .depth = 16});
  }
  EXPECT_TRUE(RunOf(plan).is_deadlocked);
  // A flow to the next switch alone takes one link: no circle.
  for (FlowPlan& flow : plan.flows) flow.to = (flow.from + 1) % 5;
  EXPECT_FALSE(RunOf(plan).is_deadlocked);
}

// [sim.flow.after]
TEST(SimRun, AFlowWaitsForThoseBeforeIt) {
  RunPlan plan = Star(3);
  plan.flows = {{.from = 0, .to = 1, .bytes = 1'000'000, .then = {1}},
                {.from = 1, .to = 2, .bytes = 1'000'000, .start = Nanos(7'000), .waits_for = 1}};
  const Results results = RunOf(plan);
  EXPECT_EQ(results.groups[0].finished, 2u);
  // The last end: two flows one after the other, and the pause.
  EXPECT_NEAR(results.groups[0].last_end_us, results.times_us[0] + results.times_us[1] + 7, 0.001);
  EXPECT_EQ(results.simulated.count(),
            static_cast<int64_t>(std::llround(results.groups[0].last_end_us * 1e3)));
}

// [sim.same]
TEST(SimRun, TheSamePlanGivesTheSameResults) {
  RunPlan plan = Star(9, congestion::Profile::kDelay);
  MarkAbove(plan, 50'000);
  plan.network.hosts[3].link.loss = 0.001;
  for (uint32_t i = 1; i <= 8; ++i) {
    plan.flows.push_back({.from = i, .to = 0, .message_bytes = 16'384, .depth = 16});
  }
  plan.duration = Nanos(5'000'000);
  const RunHead head = HeadOf("test", "", plan);
  EXPECT_EQ(JsonOf(head, RunOf(plan)), JsonOf(head, RunOf(plan)));
  RunPlan other = plan;
  other.seed = 2;
  EXPECT_NE(JsonOf(head, RunOf(plan)), JsonOf(head, RunOf(other)));
}

// [sim.flow.pairs]
TEST(SimRun, QueuePairsAreUsedAgain) {
  RunPlan plan = Star(2);
  for (uint32_t i = 0; i < 1'000; ++i) {
    plan.flows.push_back(
        {.from = i % 2, .to = 1 - i % 2, .bytes = 100, .start = Nanos(i * 20'000)});
  }
  const Results results = RunOf(plan);
  EXPECT_EQ(results.groups[0].finished, 1'000u);
  EXPECT_EQ(results.totals.retransmitted, 0u);
}

// ---- numbers ----

// [sim.number.quantile]
TEST(SimResults, QuantilesAreOfTheNearestRank) {
  std::vector<double> values;
  for (int i = 1; i <= 1'000; ++i) values.push_back(i);
  const Quantiles quantiles = QuantilesOf(values);
  EXPECT_EQ(quantiles.p50, 500);
  EXPECT_EQ(quantiles.p99, 990);
  EXPECT_EQ(quantiles.p999, 999);
  EXPECT_EQ(quantiles.most, 1'000);
  EXPECT_EQ(QuantilesOf({7}).p50, 7);
  EXPECT_EQ(QuantilesOf({}).count, 0u);
}

// [sim.number.jain]
TEST(SimResults, JainIsOneForEqualShares) {
  EXPECT_DOUBLE_EQ(JainIndex({3, 3, 3}), 1);
  EXPECT_DOUBLE_EQ(JainIndex({1, 0, 0, 0}), 0.25);
}

// [sim.number.interval]
TEST(SimResults, IntervalsAreThoseOfStudent) {
  // Of 1, 2 and 3: s = 1, t(2) = 4.303.
  const Estimate estimate = EstimateOf({1, 2, 3});
  EXPECT_DOUBLE_EQ(estimate.mean, 2);
  EXPECT_NEAR(estimate.half_width, 4.303 / std::sqrt(3.0), 1e-9);
  EXPECT_EQ(EstimateOf({5}).half_width, 0);
}

// [sim.random]
TEST(SimRandom, ExponentialsHaveTheirMean) {
  Random random(3);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) sum += random.Exponential();
  EXPECT_NEAR(sum / 100'000, 1, 0.01);
  for (const double x : {1e-9, 0.1, 0.5, 0.75, 0.999, 1.0}) {
    EXPECT_NEAR(Random::Log(x), std::log(x), 1e-13) << x;
  }
}

// [sim.random.sizes]
TEST(SimRandom, SizesHaveTheirMean) {
  for (const char* name : {"websearch", "hadoop", "storage"}) {
    const auto sizes = FlowSizesOf(name);
    Random random(5);
    double sum = 0;
    for (int i = 0; i < 200'000; ++i) sum += SizeAt(sizes, random.Uniform());
    EXPECT_NEAR(sum / 200'000 / MeanSize(sizes), 1, 0.03) << name;
  }
}

}  // namespace
}  // namespace uroce::tools::sim
