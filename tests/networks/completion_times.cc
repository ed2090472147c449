// SPDX-License-Identifier: Apache-2.0
#include "tests/networks/completion_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "tools/sim/scenario/flow_sizes.h"

namespace uroce::networks {
namespace {

/// Tenths of web search's flows each: the ticks of the public HPCC results.
constexpr uint32_t kClasses = 10;

class Workload {
 public:
  Workload(const FatTree& tree, const NetworkConfig& config, const Load& load)
      : tree_(tree), config_(config), load_(load), bed_(config), random_(load.seed) {
    const double bytes_per_nano =
        static_cast<double>(tree.rate_bps) / 8e9 * load.part * tree.nics();
    interval_ = tools::sim::MeanSize(tools::sim::kWebSearch) / bytes_per_nano;
    next_ = static_cast<double>(bed_.now().count()) + Exponential();
  }

  CompletionTimes Run() {
    const Nanos begin = bed_.now() + load_.warm;
    const Nanos end = begin + load_.measured;
    while (bed_.now() < end || (measured_under_way_ != 0 && bed_.now() < end + load_.most_more)) {
      StartDue(begin, end);
      bed_.Run(config_.turn);
      TakeFinished();
    }
    for (const Started& each : under_way_) {
      if (each.is_measured) Note(each);
    }
    return Result();
  }

 private:
  struct Started {
    Flow* flow = nullptr;
    Nanos at;
    uint32_t bytes = 0;
    bool is_measured = false;
  };

  /// In [0, 1), the same with every library.
  double Uniform() { return static_cast<double>(random_() >> 11) / 9007199254740992.0; }
  double Exponential() { return -std::log(1 - Uniform()) * interval_; }

  void StartDue(Nanos begin, Nanos end) {
    for (; next_ <= static_cast<double>(bed_.now().count()); next_ += Exponential()) {
      const Nanos at(static_cast<int64_t>(next_));
      const auto from = static_cast<uint32_t>(random_() % tree_.nics());
      const auto to =
          static_cast<uint32_t>((from + 1 + random_() % (tree_.nics() - 1)) % tree_.nics());
      Started started{.flow = &bed_.Connect(from, to, {.depth = 1}),
                      .at = at,
                      .bytes = std::max(1u, static_cast<uint32_t>(tools::sim::SizeAt(
                                                tools::sim::kWebSearch, Uniform()))),
                      .is_measured = at >= begin && at < end};
      started.flow->Post(started.bytes);
      measured_under_way_ += started.is_measured;
      under_way_.push_back(started);
    }
  }

  void TakeFinished() {
    std::erase_if(under_way_, [&](const Started& each) {
      if (each.flow->latencies().empty() && each.flow->failed() == 0) return false;
      result_.failed += each.flow->failed();
      if (each.is_measured) Note(each);
      measured_under_way_ -= each.is_measured;
      bed_.Disconnect(*each.flow);
      return true;
    });
  }

  void Note(const Started& each) {
    const Flow::Ends& ends = each.flow->ends();
    const Nanos idle = tree_.IdleTime(ends.from, ends.to, each.bytes, config_.mtu_bytes);
    const double slowdown =
        static_cast<double>((bed_.now() - each.at).count()) / static_cast<double>(idle.count());
    slowdowns_[ClassOf(each.bytes)].push_back(std::max(1.0, slowdown));
  }

  static uint32_t BoundOf(uint32_t size_class) {
    return static_cast<uint32_t>(
        tools::sim::SizeAt(tools::sim::kWebSearch, (size_class + 1.0) / kClasses));
  }
  static uint32_t ClassOf(uint32_t bytes) {
    uint32_t size_class = 0;
    while (size_class + 1 < kClasses && bytes > BoundOf(size_class)) ++size_class;
    return size_class;
  }

  static SizeClass Summary(uint32_t most_bytes, const std::vector<double>& slowdowns) {
    SizeClass summary{.most_bytes = most_bytes, .flows = slowdowns.size()};
    if (slowdowns.empty()) return summary;
    for (const double each : slowdowns) summary.mean += each / static_cast<double>(summary.flows);
    summary.p50 = Percentile(slowdowns, 0.5);
    summary.p95 = Percentile(slowdowns, 0.95);
    summary.p99 = Percentile(slowdowns, 0.99);
    return summary;
  }

  CompletionTimes Result() {
    std::vector<double> all;
    for (uint32_t i = 0; i < kClasses; ++i) {
      result_.sizes.push_back(Summary(BoundOf(i), slowdowns_[i]));
      all.insert(all.end(), slowdowns_[i].begin(), slowdowns_[i].end());
    }
    result_.all = Summary(BoundOf(kClasses - 1), all);
    result_.unfinished = measured_under_way_;
    const fabric::Fabric& fabric = bed_.fabric();
    uint64_t frames = 0, dropped = 0;
    for (uint32_t i = 0; i < 2 * (tree_.nics() + config_.trunks.size()); ++i) {
      const fabric::LinkCounters& counters = fabric.link(i).counters;
      if (i < 2 * tree_.nics() && i % 2 == 0) frames += counters.frames;
      dropped += counters.early_drops + counters.tail_drops;
      result_.pauses += counters.pauses;
    }
    result_.lost =
        static_cast<double>(dropped) / static_cast<double>(std::max<uint64_t>(frames, 1));
    result_.lost_slots = fabric.lost_slots();
    return result_;
  }

  const FatTree tree_;
  const NetworkConfig config_;
  const Load load_;
  NetworkBed bed_;
  std::mt19937_64 random_;
  double interval_ = 0;  ///< The mean time between two flows, in ns.
  double next_ = 0;      ///< When the next one starts.
  std::vector<Started> under_way_;
  uint64_t measured_under_way_ = 0;
  std::array<std::vector<double>, kClasses> slowdowns_;
  CompletionTimes result_;
};

}  // namespace

CompletionTimes RunCompletionTimes(const FatTree& tree, const NetworkConfig& config,
                                   const Load& load) {
  return Workload(tree, config, load).Run();
}

}  // namespace uroce::networks
