// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/model/run.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>

namespace uroce::tools::sim {
namespace {

constexpr double kNanosPerMicro = 1e3;
constexpr double kBitsPerByteSecond = 8e9;  ///< Bytes in a ns as bits in a s.
/// Of these, the samples are part of the results.
constexpr size_t kMostQueueSeries = 8;
constexpr size_t kMostFlowSeries = 32;

double Micros(Nanos time) { return static_cast<double>(time.count()) / kNanosPerMicro; }

double Rate(uint64_t bytes, Nanos time) {
  if (time.count() <= 0) return 0;
  return static_cast<double>(bytes) * kBitsPerByteSecond / static_cast<double>(time.count());
}

uint64_t DropsOf(const fabric::LinkCounters& counters) {
  return counters.early_drops + counters.tail_drops + counters.down_drops + counters.losses;
}

/// Room for all frames that the buffers, lines and queues of a network may hold at a time.
uint32_t MaxFrames(const Network& network) {
  constexpr uint64_t kLeastFrameBytes = 1024;  // On average; short frames are few.
  constexpr uint64_t kPerLink = 64;
  constexpr uint64_t kMost = 1u << 19;
  uint64_t frames = 1u << 16;
  for (const Network::Switch& each : network.switches) {
    frames += each.config.buffer_bytes / kLeastFrameBytes;
  }
  const auto on_line = [&](const fabric::LinkConfig& link) {
    const double bytes = static_cast<double>(link.rate_bps) / kBitsPerByteSecond *
                         static_cast<double>(link.delay.count());
    return kPerLink + 2 * static_cast<uint64_t>(bytes) / kLeastFrameBytes;
  };
  for (const Network::Host& each : network.hosts) frames += on_line(each.link);
  for (const Network::Trunk& each : network.trunks) frames += on_line(each.link);
  return static_cast<uint32_t>(std::min(frames, kMost));
}

/// Whether links that are paused with frames behind them wait for each other in a circle.
bool IsDeadlocked(const fabric::Fabric& fabric, uint32_t links) {
  const auto waits = [&](uint32_t index) {
    const fabric::Link& link = fabric.link(index);
    return link.is_paused && !link.data.empty();
  };
  // Links that wait for none that waits are taken away, until none is left or all wait.
  std::vector<bool> is_waiting(links);
  for (uint32_t i = 0; i < links; ++i) is_waiting[i] = waits(i);
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = 0; i < links; ++i) {
      const uint32_t at = fabric.link(i).to_switch;
      if (!is_waiting[i]) continue;
      const auto waits_too = [&](uint32_t egress) { return is_waiting[egress]; };
      const bool is_held =
          at != fabric::Link::kHost && std::ranges::any_of(fabric.switch_at(at).egress, waits_too);
      if (is_held) continue;
      is_waiting[i] = false;
      changed = true;
    }
  }
  return std::ranges::find(is_waiting, true) != is_waiting.end();
}

/// Takes samples of queues and rates, and turns them and all counters into results.
class Observer {
 public:
  Observer(const RunPlan& plan, const Cluster& cluster, const Traffic& traffic)
      : plan_(plan),
        cluster_(cluster),
        traffic_(traffic),
        links_(static_cast<uint32_t>(2 * (plan.network.hosts.size() + plan.network.trunks.size()))),
        before_(links_),
        sums_(links_),
        samples_(links_) {
    for (uint32_t flow = 0; flow < plan.flows.size() && series_.size() < kMostFlowSeries; ++flow) {
      if (!plan.flows[flow].is_endless()) continue;
      series_.push_back({.flow = flow, .name = NameOf(flow), .bps = {}});
    }
    last_.resize(series_.size());
  }

  void BeginMeasuring() {
    measured_from_ = cluster_.now();
    for (uint32_t i = 0; i < links_; ++i) before_[i] = cluster_.fabric().link(i).counters;
    received_before_ = Received();
    is_measuring_ = true;
  }

  void Sample(Nanos interval) {
    for (uint32_t i = 0; i < links_; ++i) {
      const uint64_t bytes = cluster_.fabric().link(i).queue_bytes();
      if (is_measuring_) sums_[i] += bytes;
      if (links_ <= kMostSampledLinks) samples_[i].push_back(static_cast<uint32_t>(bytes));
    }
    measured_samples_ += is_measuring_;
    const uint64_t received = Received();
    goodput_.push_back(Rate(received - last_received_, interval));
    if (received != last_received_) last_progress_ = cluster_.now();
    last_received_ = received;
    for (size_t i = 0; i < series_.size(); ++i) {
      const uint64_t delivered = traffic_.Delivered(series_[i].flow);
      series_[i].bps.push_back(Rate(delivered - last_[i], interval));
      last_[i] = delivered;
    }
  }

  uint64_t PacketEvents() const {
    uint64_t events = 0;
    for (uint32_t i = 0; i < links_; ++i) events += cluster_.fabric().link(i).counters.frames;
    return events;
  }

  Results Take(Nanos interval) {
    results_.simulated = cluster_.now();
    results_.measured_from = measured_from_;
    results_.sample_interval = interval;
    results_.goodput_series_bps = std::move(goodput_);
    results_.flow_series = std::move(series_);
    results_.last_progress = last_progress_;
    results_.is_deadlocked = IsDeadlocked(cluster_.fabric(), links_);
    TakeFlows();
    TakeCounters();
    TakeLinks();
    return std::move(results_);
  }

 private:
  static constexpr uint32_t kMostSampledLinks = 4096;

  Nanos measured() const { return cluster_.now() - measured_from_; }
  std::string NameOf(uint32_t flow) const {
    const FlowPlan& plan = plan_.flows[flow];
    return plan_.groups[plan.group] + " " + plan_.network.hosts[plan.from].name + " > " +
           plan_.network.hosts[plan.to].name;
  }
  uint64_t Received() const {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < cluster_.hosts(); ++i) {
      bytes += cluster_.nic(i).counters().received_bytes;
    }
    return bytes;
  }

  void TakeFlows() {
    const IdleTimes idle(plan_.network);
    std::vector<double> rates;
    std::map<uint64_t, std::array<std::vector<double>, 2>> classes;
    for (uint32_t group = 0; group < plan_.groups.size(); ++group) {
      results_.groups.push_back(GroupOf(group, idle, rates, classes));
    }
    results_.totals.jain = JainIndex(rates);
    results_.totals.goodput_bps = Rate(Received() - received_before_, measured());
    for (auto& [most, values] : classes) {
      results_.sizes.push_back({.most_bytes = most,
                                .times_us = QuantilesOf(values[0]),
                                .slowdowns = QuantilesOf(values[1])});
    }
    std::ranges::sort(results_.times_us);
    std::ranges::sort(results_.slowdowns);
    std::vector<double> latencies;
    for (const Nanos each : traffic_.latencies()) latencies.push_back(Micros(each));
    results_.message_us = QuantilesOf(std::move(latencies));
  }

  using Classes = std::map<uint64_t, std::array<std::vector<double>, 2>>;

  GroupResult GroupOf(uint32_t group, const IdleTimes& idle, std::vector<double>& all_rates,
                      Classes& classes) {
    GroupResult result{.name = plan_.groups[group]};
    std::vector<double> rates, times, slowdowns;
    uint64_t measured_bytes = 0;
    for (uint32_t flow = 0; flow < plan_.flows.size(); ++flow) {
      const FlowPlan& plan = plan_.flows[flow];
      if (plan.group != group) continue;
      const FlowState& state = traffic_.states()[flow];
      Count(state.phase, result);
      measured_bytes += state.delivered_bytes - state.delivered_before;
      const bool is_over = state.phase == FlowState::Phase::kFinished;
      const Nanos time = state.ended - state.started;
      if (plan.is_endless()) {
        rates.push_back(Rate(state.delivered_bytes - state.delivered_before, measured()));
      } else if (is_over) {
        rates.push_back(Rate(plan.bytes, time));
      }
      if (!is_over) continue;
      result.last_end_us = std::max(result.last_end_us, Micros(state.ended));
      if (plan.is_endless()) continue;
      times.push_back(Micros(time));
      slowdowns.push_back(std::max(1.0, Micros(time) / Micros(idle.Of(plan))));
      std::array<std::vector<double>, 2>& of_size = classes[ClassOf(plan.bytes)];
      of_size[0].push_back(times.back());
      of_size[1].push_back(slowdowns.back());
    }
    result.goodput_bps = Rate(measured_bytes, measured());
    result.jain = JainIndex(rates);
    if (!rates.empty()) {
      result.least_bps = *std::ranges::min_element(rates);
      result.most_bps = *std::ranges::max_element(rates);
    }
    const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(all_rates, rates);
    append(results_.times_us, times);
    append(results_.slowdowns, slowdowns);
    result.times_us = QuantilesOf(std::move(times));
    result.slowdowns = QuantilesOf(std::move(slowdowns));
    return result;
  }

  static void Count(FlowState::Phase phase, GroupResult& result) {
    ++result.flows;
    result.finished += phase == FlowState::Phase::kFinished;
    result.failed += phase == FlowState::Phase::kFailed;
    result.running += phase == FlowState::Phase::kRunning;
    result.waiting += phase == FlowState::Phase::kWaiting;
  }

  static uint64_t ClassOf(uint64_t bytes) {
    for (const uint64_t most : {10'000, 100'000, 1'000'000, 10'000'000}) {
      if (bytes <= most) return most;
    }
    return UINT64_MAX;
  }

  void TakeCounters() {
    Totals& totals = results_.totals;
    totals.packet_events = PacketEvents();
    for (const auto& pair : cluster_.queue_pairs()) {
      const transport::QueuePairCounters& counters = pair->core.counters();
      totals.retransmitted += counters.retransmitted_pkts;
      totals.sequence_naks += counters.packet_seq_err;
      totals.timeouts += counters.local_ack_timeout_err;
      totals.probes += counters.tail_loss_probes;
      totals.duplicates += counters.duplicate_request;
      totals.out_of_sequence += counters.out_of_sequence;
      totals.kept += counters.kept_out_of_order;
    }
    for (uint32_t i = 0; i < cluster_.hosts(); ++i) {
      const NicCounters& counters = cluster_.nic(i).counters();
      totals.frames += counters.sent_frames;
      totals.cnps += counters.cnps_received;
      totals.marked_frames += counters.marked_frames;
      totals.scripted_drops += counters.scripted_drops;
      totals.reordered += counters.reordered_frames;
    }
    for (uint32_t i = 0; i < cluster_.fabric().switches(); ++i) {
      totals.no_path += cluster_.fabric().switch_at(i).lost_ways;
    }
    totals.lost_slots = cluster_.fabric().lost_slots();
  }

  LinkResult LinkOf(uint32_t index) {
    const fabric::Link& link = cluster_.fabric().link(index);
    const fabric::LinkCounters& counters = link.counters;
    LinkResult result{.link = index, .name = plan_.network.NameOfLink(index)};
    constexpr uint64_t kOverhead = fabric::WireBytes(1000) - 1000;
    const uint64_t wire_bytes = counters.bytes - before_[index].bytes +
                                (counters.frames - before_[index].frames) * kOverhead;
    result.use = Rate(wire_bytes, measured()) / static_cast<double>(link.config.rate_bps);
    result.frames = counters.frames;
    result.marks = counters.marks;
    result.drops = DropsOf(counters);
    result.pauses = counters.pauses;
    const Nanos present = link.is_paused ? cluster_.now() - link.paused_at : Nanos(0);
    result.paused_us = Micros(counters.paused + present);
    result.peak_queue_bytes = link.peak_queue_bytes;
    if (measured_samples_ != 0) {
      result.mean_queue_bytes =
          static_cast<double>(sums_[index]) / static_cast<double>(measured_samples_);
    }
    return result;
  }

  void NoteDrops(const std::string& name, const fabric::LinkCounters& counters) {
    results_.drops.push_back({.name = name,
                              .frames = counters.frames,
                              .tail_drops = counters.tail_drops,
                              .early_drops = counters.early_drops,
                              .down_drops = counters.down_drops,
                              .losses = counters.losses});
  }

  void TakeLinks() {
    Totals& totals = results_.totals;
    for (uint32_t i = 0; i < links_; ++i) {
      const fabric::LinkCounters& counters = cluster_.fabric().link(i).counters;
      LinkResult result = LinkOf(i);
      totals.marks += result.marks;
      totals.pauses += result.pauses;
      totals.paused_us += result.paused_us;
      totals.tail_drops += counters.tail_drops;
      totals.early_drops += counters.early_drops;
      totals.down_drops += counters.down_drops;
      totals.losses += counters.losses;
      if (result.drops != 0) NoteDrops(result.name, counters);
      // A host's own queue holds a frame at most, and says nothing of the network.
      if (cluster_.fabric().link(i).from_switch == fabric::Link::kHost) continue;
      totals.peak_queue_bytes = std::max(totals.peak_queue_bytes, result.peak_queue_bytes);
      totals.mean_queue_bytes = std::max(totals.mean_queue_bytes, result.mean_queue_bytes);
      if (counters.frames != 0 || result.drops != 0) results_.links.push_back(std::move(result));
    }
    std::ranges::stable_sort(results_.links, [](const LinkResult& a, const LinkResult& b) {
      return a.mean_queue_bytes > b.mean_queue_bytes;
    });
    std::ranges::stable_sort(results_.drops, std::greater<>(), &LinkDrops::all);
    for (size_t i = 0; i < std::min(results_.links.size(), kMostQueueSeries); ++i) {
      results_.links[i].queue_samples = std::move(samples_[results_.links[i].link]);
    }
  }

  const RunPlan& plan_;
  const Cluster& cluster_;
  const Traffic& traffic_;
  const uint32_t links_;
  bool is_measuring_ = false;
  Nanos measured_from_{0};
  Nanos last_progress_{0};
  uint64_t measured_samples_ = 0;
  uint64_t received_before_ = 0, last_received_ = 0;
  std::vector<fabric::LinkCounters> before_;
  std::vector<uint64_t> sums_;
  std::vector<std::vector<uint32_t>> samples_;
  std::vector<double> goodput_;
  std::vector<FlowSeries> series_;
  std::vector<uint64_t> last_;
  Results results_;
};

void Apply(const NetworkEvent& event, Cluster& cluster) {
  switch (event.kind) {
    case NetworkEvent::Kind::kLinkDown:
      return cluster.SetUp(event.number, false);
    case NetworkEvent::Kind::kLinkUp:
      return cluster.SetUp(event.number, true);
    case NetworkEvent::Kind::kHostPauses:
      return cluster.PauseByHost(event.number, true);
    case NetworkEvent::Kind::kHostResumes:
      return cluster.PauseByHost(event.number, false);
  }
}

uint32_t MaxDepth(const std::vector<FlowPlan>& flows) {
  uint32_t most = 1;
  for (const FlowPlan& flow : flows) most = std::max(most, flow.depth);
  return most;
}

}  // namespace

Results Run(const RunPlan& plan, const RunWatch& watch) {
  Traffic traffic(plan.flows, plan.packet_events);
  Cluster cluster(
      plan.network,
      {.seed = plan.seed, .max_works = MaxDepth(plan.flows), .max_frames = MaxFrames(plan.network)},
      traffic);
  traffic.Attach(cluster);
  if (watch.recorder) cluster.Record(watch.recorded_hosts, watch.recorder);
  Observer observer(plan, cluster, traffic);
  const Nanos interval(std::max<int64_t>(1, plan.duration.count() / plan.samples));
  const bool has_endless =
      std::ranges::any_of(plan.flows, [](const FlowPlan& flow) { return flow.is_endless(); });
  Nanos sample = interval;
  Nanos measure = plan.warm_up;
  size_t event = 0;
  while (cluster.now() < plan.duration) {
    const Nanos change =
        event < plan.network_events.size() ? plan.network_events[event].at : kNever;
    cluster.RunUntil(std::min({plan.duration, sample, measure, change, traffic.next()}));
    if (measure <= cluster.now()) {
      measure = kNever;
      traffic.BeginMeasuring();
      observer.BeginMeasuring();
    }
    for (; event < plan.network_events.size() && plan.network_events[event].at <= cluster.now();
         ++event) {
      Apply(plan.network_events[event], cluster);
    }
    traffic.RunDue();
    if (sample <= cluster.now()) {
      observer.Sample(interval);
      sample = sample + interval;
      if (watch.on_progress) {
        watch.on_progress({.now = cluster.now(),
                           .packet_events = observer.PacketEvents(),
                           .running_flows = traffic.running(),
                           .ended_flows = traffic.ended()});
      }
    }
    if (!has_endless && traffic.is_done() && event == plan.network_events.size()) break;
  }
  traffic.NoteDelivered();
  return observer.Take(interval);
}

}  // namespace uroce::tools::sim
