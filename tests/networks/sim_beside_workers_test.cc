// SPDX-License-Identifier: Apache-2.0
// `uroce sim` beside the daemon's own workers, devices and switches, on the same networks: its NICs
// take no time and have no turns, and what comes of an incast is the same all the same.
#include <gtest/gtest.h>

#include <string>

#include "tests/networks/scenarios.h"
#include "tools/sim/model/run.h"

namespace uroce::networks {
namespace {

using congestion::Profile;

/// The whole run of an incast, as Star and RunIncast have it, for `duration`.
tools::sim::Results Simulate(const NetworkConfig& config, uint32_t senders, Nanos duration,
                             Nanos warm) {
  tools::sim::RunPlan plan;
  plan.network.switches = {{"s0", config.switches.front()}};
  for (uint32_t i = 0; i <= senders; ++i) {
    plan.network.hosts.push_back(
        {"h" + std::to_string(i), 0, config.link, {.congestion = config.settings}});
  }
  plan.groups = {"incast"};
  for (uint32_t i = 1; i <= senders; ++i) {
    plan.flows.push_back({.from = i, .to = 0, .message_bytes = kMessageBytes, .depth = kDepth});
  }
  plan.duration = duration;
  plan.warm_up = warm;
  return tools::sim::Run(plan, {});
}

const tools::sim::LinkResult& Bottleneck(const tools::sim::Results& results) {
  for (const tools::sim::LinkResult& each : results.links) {
    if (each.name == "s0 -> h0") return each;
  }
  return results.links.front();
}

Shares SimulatedIncast(const NetworkConfig& config, const Incast& incast) {
  const tools::sim::Results before =
      Simulate(config, incast.senders, incast.warm, Nanos(incast.warm.count() / 2));
  const tools::sim::Results all =
      Simulate(config, incast.senders, incast.warm + incast.measured, incast.warm);
  const tools::sim::LinkResult &first = Bottleneck(before), &whole = Bottleneck(all);
  const auto drops = static_cast<double>(whole.drops - first.drops);
  const auto frames = static_cast<double>(whole.frames - first.frames);
  return {.jain = all.totals.jain, .use = whole.use, .lost = drops / (drops + frames)};
}

TEST(SimBesideWorkers, AnIncastComesToTheSame) {
  struct Case {
    Kind kind;
    Profile profile;
    uint32_t senders;
  };
  for (const Case& each :
       {Case{Kind::kMarked, Profile::kDcqcn, 2}, Case{Kind::kMarked, Profile::kDcqcn, 8},
        Case{Kind::kMarked, Profile::kDelay, 2}, Case{Kind::kMarked, Profile::kDelay, 8},
        Case{Kind::kMarked, Profile::kOff, 2}, Case{Kind::kUnmarked, Profile::kDelay, 8},
        Case{Kind::kUnmarked, Profile::kDcqcn, 2}, Case{Kind::kLossless, Profile::kDelay, 8}}) {
    const NetworkConfig config =
        Star(each.kind, each.senders + 1, congestion::DefaultsOf(each.profile));
    const Incast incast{.senders = each.senders};
    const Shares workers = RunIncast(config, incast);
    const Shares simulated = SimulatedIncast(config, incast);
    const std::string name = std::string(NameOf(each.kind)) + " " +
                             std::string(congestion::NameOf(each.profile)) + " " +
                             std::to_string(each.senders);
    EXPECT_NEAR(simulated.jain, workers.jain, 0.05) << name;
    EXPECT_NEAR(simulated.use, workers.use, 0.05) << name;
    EXPECT_NEAR(simulated.lost, workers.lost, 0.03) << name;
  }
}

}  // namespace
}  // namespace uroce::networks
