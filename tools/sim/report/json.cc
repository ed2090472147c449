// SPDX-License-Identifier: Apache-2.0
// The results of simulations as JSON (docs/sim.schema.json).
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "tools/sim/report/report.h"

namespace uroce::tools::sim {
namespace {

using Json = nlohmann::ordered_json;

/// The most points of a distribution.
constexpr size_t kMostPoints = 500;

/// Rounded to what a result means, so that its digits do not depend on the printer.
double Rounded(double value) {
  constexpr double kThousand = 1e3;
  return std::round(value * kThousand) / kThousand;
}

Json JsonOf(const Quantiles& quantiles) {
  return {{"count", quantiles.count},        {"mean", Rounded(quantiles.mean)},
          {"p50", Rounded(quantiles.p50)},   {"p99", Rounded(quantiles.p99)},
          {"p999", Rounded(quantiles.p999)}, {"most", Rounded(quantiles.most)}};
}

Json JsonOf(const Totals& totals) {
  return {{"goodput_bps", std::round(totals.goodput_bps)},
          {"fairness", std::round(totals.jain * 1e6) / 1e6},
          {"frames", totals.frames},
          {"packet_events", totals.packet_events},
          {"retransmitted", totals.retransmitted},
          {"sequence_naks", totals.sequence_naks},
          {"timeouts", totals.timeouts},
          {"tail_loss_probes", totals.probes},
          {"duplicate_requests", totals.duplicates},
          {"out_of_sequence", totals.out_of_sequence},
          {"kept_out_of_order", totals.kept},
          {"marks", totals.marks},
          {"marked_frames", totals.marked_frames},
          {"cnps", totals.cnps},
          {"pauses", totals.pauses},
          {"paused_us", Rounded(totals.paused_us)},
          {"tail_drops", totals.tail_drops},
          {"early_drops", totals.early_drops},
          {"link_down_drops", totals.down_drops},
          {"line_losses", totals.losses},
          {"scripted_drops", totals.scripted_drops},
          {"without_path", totals.no_path},
          {"late_frames", totals.reordered},
          {"without_room", totals.lost_slots},
          {"queue_peak_bytes", totals.peak_queue_bytes},
          {"queue_mean_bytes", Rounded(totals.mean_queue_bytes)}};
}

Json JsonOf(const GroupResult& group) {
  return {{"name", group.name},
          {"flows", group.flows},
          {"finished", group.finished},
          {"failed", group.failed},
          {"running", group.running},
          {"waiting", group.waiting},
          {"goodput_bps", std::round(group.goodput_bps)},
          {"fairness", std::round(group.jain * 1e6) / 1e6},
          {"slowest_bps", std::round(group.least_bps)},
          {"fastest_bps", std::round(group.most_bps)},
          {"time_us", JsonOf(group.times_us)},
          {"slowdown", JsonOf(group.slowdowns)},
          {"last_end_us", Rounded(group.last_end_us)}};
}

Json JsonOf(const LinkResult& link) {
  Json json = {{"name", link.name},
               {"use", std::round(link.use * 1e6) / 1e6},
               {"frames", link.frames},
               {"marks", link.marks},
               {"drops", link.drops},
               {"pauses", link.pauses},
               {"paused_us", Rounded(link.paused_us)},
               {"queue_peak_bytes", link.peak_queue_bytes},
               {"queue_mean_bytes", Rounded(link.mean_queue_bytes)}};
  if (!link.queue_samples.empty()) json["queue_bytes"] = link.queue_samples;
  return json;
}

Json JsonOf(const LinkDrops& link) {
  return {{"name", link.name},
          {"frames", link.frames},
          {"tail_drops", link.tail_drops},
          {"early_drops", link.early_drops},
          {"link_down_drops", link.down_drops},
          {"line_losses", link.losses}};
}

/// Of sorted values: pairs of a value and the part of all values that are at most as large.
Json DistributionOf(const std::vector<double>& values) {
  Json points = Json::array();
  const size_t count = values.size();
  const size_t shown = std::min(count, kMostPoints);
  for (size_t i = 1; i <= shown; ++i) {
    const size_t rank = i * count / shown;
    points.push_back({Rounded(values[rank - 1]),
                      Rounded(1e3 * static_cast<double>(rank) / static_cast<double>(count)) / 1e3});
  }
  return points;
}

Json SeriesOf(const Results& results) {
  const auto whole = [](const std::vector<double>& rates) {
    Json json = Json::array();
    for (const double rate : rates) json.push_back(std::round(rate));
    return json;
  };
  Json flows = Json::array();
  for (const FlowSeries& each : results.flow_series) {
    flows.push_back({{"name", each.name}, {"bps", whole(each.bps)}});
  }
  return {{"interval_ns", results.sample_interval.count()},
          {"goodput_bps", whole(results.goodput_series_bps)},
          {"flows", flows}};
}

Json HeadJson(const RunHead& head) {
  return {{"scenario", head.name},     {"title", head.title}, {"hosts", head.hosts},
          {"switches", head.switches}, {"links", head.links}, {"flows", head.flows},
          {"seed", head.seed}};
}

Json JsonOf(const Results& results) {
  Json groups = Json::array(), sizes = Json::array(), links = Json::array();
  for (const GroupResult& each : results.groups) groups.push_back(JsonOf(each));
  for (const SizeClass& each : results.sizes) {
    const bool is_last = each.most_bytes == UINT64_MAX;
    sizes.push_back({{"up_to_bytes", is_last ? Json(nullptr) : Json(each.most_bytes)},
                     {"time_us", JsonOf(each.times_us)},
                     {"slowdown", JsonOf(each.slowdowns)}});
  }
  constexpr size_t kMostLinks = 256;
  for (size_t i = 0; i < std::min(results.links.size(), kMostLinks); ++i) {
    links.push_back(JsonOf(results.links[i]));
  }
  Json drops = Json::array();
  for (size_t i = 0; i < std::min(results.drops.size(), kMostLinks); ++i) {
    drops.push_back(JsonOf(results.drops[i]));
  }
  return {{"simulated_ns", results.simulated.count()},
          {"measured_from_ns", results.measured_from.count()},
          {"deadlocked", results.is_deadlocked},
          {"last_progress_ns", results.last_progress.count()},
          {"totals", JsonOf(results.totals)},
          {"workloads", groups},
          {"sizes", sizes},
          {"message_us", JsonOf(results.message_us)},
          {"time_distribution_us", DistributionOf(results.times_us)},
          {"slowdown_distribution", DistributionOf(results.slowdowns)},
          {"links", links},
          {"drops", drops},
          {"series", SeriesOf(results)}};
}

}  // namespace

std::string JsonOf(const RunHead& head, const Results& results) {
  Json json = {{"format", 1}, {"run", HeadJson(head)}, {"results", JsonOf(results)}};
  return json.dump(1, ' ') + "\n";
}

std::string JsonOf(const RunHead& head, const std::vector<Comparison>& comparisons) {
  Json all = Json::array();
  for (const Comparison& each : comparisons) {
    Json measures = Json::object();
    const auto names = Measures(each.runs.front());
    for (size_t i = 0; i < names.size(); ++i) {
      std::vector<double> values;
      for (const Results& run : each.runs) values.push_back(Measures(run)[i].second);
      const Estimate estimate = EstimateOf(values);
      Json rounded = Json::array();
      for (const double value : values) rounded.push_back(std::round(value * 1e6) / 1e6);
      measures[names[i].first] = {{"mean", std::round(estimate.mean * 1e6) / 1e6},
                                  {"half_width", std::round(estimate.half_width * 1e6) / 1e6},
                                  {"values", rounded}};
    }
    all.push_back({{"setting", each.setting}, {"seeds", each.runs.size()}, {"measures", measures}});
  }
  Json json = {{"format", 1}, {"run", HeadJson(head)}, {"comparisons", all}};
  return json.dump(1, ' ') + "\n";
}

}  // namespace uroce::tools::sim
