// SPDX-License-Identifier: Apache-2.0
#include "tests/networks/scenarios.h"

#include <algorithm>

#include "tests/networks/link_watch.h"

namespace uroce::networks {
std::string_view NameOf(Kind kind) {
  switch (kind) {
    case Kind::kMarked:
      return "marked";
    case Kind::kUnmarked:
      return "unmarked";
    case Kind::kLossless:
      return "lossless";
    case Kind::kSlow:
      return "slow";
  }
  return "";
}

NetworkConfig Star(Kind kind, uint32_t nics, const congestion::Settings& settings) {
  NetworkConfig config{.switches = {{.buffer_bytes = 1'000'000}},
                       .trunks = {},
                       .switch_of_nic = std::vector<uint32_t>(nics, 0),
                       .link = {.rate_bps = 25 * kGigabit, .delay = Nanos(2'500)},
                       .settings = settings};
  fabric::SwitchConfig& its = config.switches[0];
  switch (kind) {
    case Kind::kMarked:
      its.ecn = {.on = true, .min_bytes = 100'000, .max_bytes = 400'000, .max_probability = 0.2};
      break;
    case Kind::kUnmarked:
      break;
    case Kind::kLossless:
      its.buffer_bytes = 16'000'000;
      its.pfc = {.on = true, .xoff_bytes = 120'000, .xon_bytes = 100'000};
      break;
    case Kind::kSlow:
      its.buffer_bytes = 4'000'000;
      config.link = {.rate_bps = kGigabit, .delay = Nanos(5'000'000)};
      break;
  }
  return config;
}

double FairnessOf(const std::vector<Flow*>& flows) {
  std::vector<double> completed;
  for (const Flow* flow : flows) completed.push_back(static_cast<double>(flow->completed_bytes()));
  return JainIndex(completed);
}

Shares RunIncast(const NetworkConfig& config, const Incast& incast) {
  NetworkBed bed(config);
  std::vector<Flow*> flows;
  for (uint32_t i = 1; i <= incast.senders; ++i) {
    flows.push_back(incast.reads ? &bed.Connect(0, i) : &bed.Connect(i, 0));
    flows.back()->KeepPosted(kDepth, kMessageBytes, incast.reads);
  }
  bed.Run(incast.warm);
  for (Flow* flow : flows) flow->ResetCounts();
  const LinkWatch watch(bed.LinkTo(0), bed.now());
  bed.WatchQueue(&bed.LinkTo(0));
  bed.Run(incast.measured);
  Shares shares{.use = watch.use(bed.now()),
                .lost = watch.lost(),
                .queue_99 = bed.QueueBytes(0.99),
                .queue_peak = bed.LinkTo(0).peak_queue_bytes};
  for (const Flow* flow : flows) shares.failed += flow->failed();
  shares.jain = FairnessOf(flows);
  return shares;
}

Latencies RunBeside(const NetworkConfig& config, uint32_t senders, uint32_t bytes, Nanos warm,
                    Nanos measured) {
  NetworkBed bed(config);
  for (uint32_t i = 1; i <= senders; ++i) bed.Connect(i, 0).KeepPosted(kDepth, kMessageBytes);
  Flow& probe = bed.Connect(senders + 1, 0);
  bed.Run(warm);
  probe.KeepPosted(1, bytes);
  bed.Run(measured);
  std::vector<double> micros;
  for (const Nanos each : probe.latencies()) {
    micros.push_back(static_cast<double>(each.count()) / 1e3);
  }
  if (micros.empty()) return {};
  return {.p50_us = Percentile(micros, 0.5),
          .p99_us = Percentile(micros, 0.99),
          .messages = micros.size()};
}

Shares RunParkingLot(const NetworkConfig& star, uint32_t hops, Nanos warm, Nanos measured) {
  NetworkConfig config = star;
  config.switches.assign(hops + 1, star.switches.front());
  config.switch_of_nic.clear();
  // NICs 2 i and 2 i + 1 are at switch i; the long flow has two more.
  for (uint32_t i = 0; i <= hops; ++i)
    config.switch_of_nic.insert(config.switch_of_nic.end(), 2, i);
  config.switch_of_nic.push_back(0);
  config.switch_of_nic.push_back(hops);
  for (uint32_t i = 0; i < hops; ++i) config.trunks.push_back({i, i + 1, star.link});
  NetworkBed bed(config);
  std::vector<Flow*> flows;
  flows.push_back(&bed.Connect(2 * hops + 2, 2 * hops + 3));
  for (uint32_t i = 0; i < hops; ++i) flows.push_back(&bed.Connect(2 * i, 2 * i + 3));
  for (Flow* flow : flows) flow->KeepPosted(kDepth, kMessageBytes);
  bed.Run(warm);
  for (Flow* flow : flows) flow->ResetCounts();
  // Cables of hosts come first, then those between switches.
  const auto cables = static_cast<uint32_t>(config.switch_of_nic.size());
  std::vector<LinkWatch> watches;
  for (uint32_t i = 0; i < hops; ++i) {
    watches.emplace_back(bed.fabric().link((cables + i) * 2), bed.now());
  }
  bed.Run(measured);
  Shares shares{.jain = FairnessOf(flows), .use = 1};
  for (const LinkWatch& watch : watches) {
    shares.use = std::min(shares.use, watch.use(bed.now()));
    shares.lost = std::max(shares.lost, watch.lost());
  }
  for (const Flow* flow : flows) shares.failed += flow->failed();
  return shares;
}

std::vector<Shares> RunComingAndGoing(const NetworkConfig& config, uint32_t senders, Nanos stage) {
  NetworkBed bed(config);
  std::vector<Flow*> flows, present;
  std::vector<Shares> stages;
  for (uint32_t i = 1; i <= senders; ++i) flows.push_back(&bed.Connect(i, 0));
  for (uint32_t i = 0; i + 1 < 2 * senders; ++i) {
    if (i < senders) {
      flows[i]->KeepPosted(kDepth, kMessageBytes);
      present.push_back(flows[i]);
    } else {
      present.front()->Stop();
      present.erase(present.begin());
    }
    bed.Run(Nanos(stage.count() / 2));
    for (Flow* flow : present) flow->ResetCounts();
    const LinkWatch watch(bed.LinkTo(0), bed.now());
    bed.Run(Nanos(stage.count() / 2));
    stages.push_back(
        {.jain = FairnessOf(present), .use = watch.use(bed.now()), .lost = watch.lost()});
  }
  return stages;
}

Convergence RunConvergence(const NetworkConfig& config, Nanos before, Nanos duration) {
  constexpr Nanos kInterval{2'000'000};
  NetworkBed bed(config);
  std::vector<Flow*> flows{&bed.Connect(1, 0), &bed.Connect(2, 0)};
  flows[0]->KeepPosted(kDepth, kMessageBytes);
  bed.Run(before);
  flows[1]->KeepPosted(kDepth, kMessageBytes);
  Convergence result;
  const Nanos began = bed.now();
  std::vector<double> sums(flows.size());
  for (const Nanos end = began + duration; bed.now() < end;) {
    for (Flow* flow : flows) flow->ResetCounts();
    bed.Run(kInterval);
    if (FairnessOf(flows) < 0.9) result.until = bed.now() - began;
    if (bed.now() - began <= Nanos(duration.count() / 2)) continue;
    for (size_t i = 0; i < flows.size(); ++i) {
      sums[i] += static_cast<double>(flows[i]->completed_bytes());
    }
  }
  result.jain = JainIndex(sums);
  return result;
}

}  // namespace uroce::networks
