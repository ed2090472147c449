// SPDX-License-Identifier: Apache-2.0
#include "tests/networks/mixed_traffic.h"

#include "tests/networks/link_watch.h"

namespace uroce::networks {

UnresponsiveShares RunUnresponsive(Kind kind, const congestion::Settings& settings,
                                   const Unresponsive& load) {
  const uint32_t other = load.senders + 1;
  NetworkConfig config = Star(kind, other + 1, settings);
  config.settings_of[other] = congestion::DefaultsOf(congestion::Profile::kOff);
  config.traffic_class = 2;  // Its packets are ECN capable: switches mark them instead of a drop.
  NetworkBed bed(config);
  std::vector<Flow*> flows;
  for (uint32_t i = 1; i <= load.senders; ++i) flows.push_back(&bed.Connect(i, 0));
  for (Flow* flow : flows) flow->KeepPosted(kDepth, kMessageBytes);
  bed.Connect(other, 0, {.service = wire::Service::kUc, .limit_bps = load.rate_bps})
      .KeepPosted(kDepth, kMessageBytes);
  bed.Run(load.warm);
  for (Flow* flow : flows) flow->ResetCounts();
  const LinkWatch watch(bed.LinkTo(0), bed.now());
  bed.Run(load.measured);
  UnresponsiveShares shares{
      .responsive = {.jain = FairnessOf(flows), .use = watch.use(bed.now()), .lost = watch.lost()},
      .responsive_use = 0};
  for (const Flow* flow : flows) {
    shares.responsive_use += watch.ShareOf(flow->completed_bytes(), bed.now());
    shares.responsive.failed += flow->failed();
  }
  return shares;
}

BurstResult RunBursts(Kind kind, const congestion::Settings& settings, const Bursts& load) {
  NetworkBed bed(Star(kind, load.senders + load.bursters + 1, settings));
  std::vector<Flow*> flows, bursters;
  for (uint32_t i = 1; i <= load.senders; ++i) flows.push_back(&bed.Connect(i, 0));
  for (uint32_t i = 1; i <= load.bursters; ++i) {
    bursters.push_back(&bed.Connect(load.senders + i, 0, {.depth = 256}));
  }
  for (Flow* flow : flows) flow->KeepPosted(kDepth, kMessageBytes);
  bed.Run(load.warm);
  for (Flow* flow : flows) flow->ResetCounts();
  const LinkWatch watch(bed.LinkTo(0), bed.now());
  for (const Nanos end = bed.now() + load.measured; bed.now() < end; bed.Run(load.period)) {
    for (Flow* flow : bursters) {
      // A flow whose last bursts still wait adds none.
      for (uint32_t i = 0; i < load.messages && flow->under_way() < 128; ++i) {
        flow->Post(load.bytes);
      }
    }
  }
  BurstResult result{
      .messages = {},
      .others = {.jain = FairnessOf(flows), .use = watch.use(bed.now()), .lost = watch.lost()}};
  std::vector<double> micros;
  for (const Flow* flow : bursters) {
    for (const Nanos each : flow->latencies()) {
      micros.push_back(static_cast<double>(each.count()) / 1e3);
    }
    result.others.failed += flow->failed();
  }
  if (!micros.empty()) {
    result.messages = {.p50_us = Percentile(micros, 0.5),
                       .p99_us = Percentile(micros, 0.99),
                       .messages = micros.size()};
  }
  return result;
}

VictimShares RunVictim(const NetworkConfig& star, uint32_t senders, Nanos warm, Nanos measured) {
  NetworkConfig config = star;
  config.switches.assign(2, star.switches.front());
  config.switch_of_nic.assign(senders + 1, 0);
  config.switch_of_nic.insert(config.switch_of_nic.end(), 2, 1);
  fabric::LinkConfig trunk = star.link;
  trunk.rate_bps *= 4;
  config.trunks = {{0, 1, trunk}};
  NetworkBed bed(config);
  const uint32_t target = senders + 1;
  std::vector<Flow*> flows;
  for (uint32_t i = 0; i < senders; ++i) flows.push_back(&bed.Connect(i, target));
  Flow& victim = bed.Connect(senders, target + 1);
  for (Flow* flow : flows) flow->KeepPosted(kDepth, kMessageBytes);
  victim.KeepPosted(kDepth, kMessageBytes);
  bed.Run(warm);
  for (Flow* flow : flows) flow->ResetCounts();
  victim.ResetCounts();
  const LinkWatch watch(bed.LinkTo(target), bed.now());
  const LinkWatch between(bed.fabric().link(2 * static_cast<uint32_t>(config.switch_of_nic.size())),
                          bed.now());
  bed.WatchQueue(&bed.LinkTo(target));
  bed.Run(measured);
  return {.incast = {.jain = FairnessOf(flows),
                     .use = watch.use(bed.now()),
                     .lost = watch.lost(),
                     .queue_99 = bed.QueueBytes(0.99)},
          .victim = watch.ShareOf(victim.completed_bytes(), bed.now()),
          .pauses = between.pauses()};
}

}  // namespace uroce::networks
