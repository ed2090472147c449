// SPDX-License-Identifier: Apache-2.0
// The results of simulations as tables.
#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/sim/report/report.h"

namespace uroce::tools::sim {
namespace {

std::string Rate(double bps) {
  if (bps >= 1e9) return absl::StrFormat("%.3f Gb/s", bps / 1e9);
  return absl::StrFormat("%.3f Mb/s", bps / 1e6);
}

std::string Micros(double micros) {
  if (micros >= 1e6) return absl::StrFormat("%.3f s", micros / 1e6);
  if (micros >= 1e3) return absl::StrFormat("%.3f ms", micros / 1e3);
  return absl::StrFormat("%.2f us", micros);
}

std::string Bytes(double bytes) {
  if (bytes >= 1e6) return absl::StrFormat("%.2f MB", bytes / 1e6);
  if (bytes >= 1e3) return absl::StrFormat("%.1f KB", bytes / 1e3);
  return absl::StrFormat("%.0f B", bytes);
}

/// Rows of cells under a head; the first column is left-aligned, the others right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string Text() const {
    std::vector<size_t> widths(rows_.front().size());
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string pad(widths[i] - row[i].size(), ' ');
        absl::StrAppend(&text, i == 0 ? "  " + row[i] + pad : "  " + pad + row[i]);
      }
      text.erase(text.find_last_not_of(' ') + 1);
      text += '\n';
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string Heading(const RunHead& head) {
  return absl::StrCat(head.name, head.title.empty() ? "" : ": ", head.title, "\n", head.hosts,
                      " NICs, ", head.switches, head.switches == 1 ? " switch, " : " switches, ",
                      head.links, " links, ", head.flows,
                      head.flows == 1 ? " flow, seed " : " flows, seed ", head.seed, "\n");
}

std::string Groups(const Results& results) {
  Table table({"workload", "flows", "ended", "goodput", "fairness", "slowest", "fastest", "p50",
               "p99", "p99.9", "last end"});
  for (const GroupResult& each : results.groups) {
    const bool has_times = each.times_us.count != 0;
    const auto time = [&](double micros) { return has_times ? Micros(micros) : "-"; };
    table.Add({each.name, absl::StrCat(each.flows),
               each.failed == 0 ? absl::StrCat(each.finished)
                                : absl::StrCat(each.finished, " (", each.failed, " failed)"),
               Rate(each.goodput_bps), absl::StrFormat("%.4f", each.jain), Rate(each.least_bps),
               Rate(each.most_bps), time(each.times_us.p50), time(each.times_us.p99),
               time(each.times_us.p999), time(each.last_end_us)});
  }
  return table.Text();
}

std::string Sizes(const Results& results) {
  if (results.sizes.empty()) return "";
  Table table({"flows up to", "count", "p50", "p99", "p99.9", "slowdown p50", "p99", "p99.9"});
  for (const SizeClass& each : results.sizes) {
    const auto ratio = [](double value) { return absl::StrFormat("%.2f", value); };
    table.Add(
        {each.most_bytes == UINT64_MAX ? "larger" : Bytes(static_cast<double>(each.most_bytes)),
         absl::StrCat(each.times_us.count), Micros(each.times_us.p50), Micros(each.times_us.p99),
         Micros(each.times_us.p999), ratio(each.slowdowns.p50), ratio(each.slowdowns.p99),
         ratio(each.slowdowns.p999)});
  }
  return absl::StrCat("\nCompletion times, and how much longer than on an idle network:\n",
                      table.Text());
}

std::string Links(const Results& results) {
  constexpr size_t kMost = 5;
  if (results.links.empty()) return "";
  Table table(
      {"link", "in use", "mean queue", "longest", "frames", "marks", "drops", "pauses", "paused"});
  for (size_t i = 0; i < std::min(results.links.size(), kMost); ++i) {
    const LinkResult& each = results.links[i];
    table.Add({each.name, absl::StrFormat("%.1f %%", 100 * each.use), Bytes(each.mean_queue_bytes),
               Bytes(static_cast<double>(each.peak_queue_bytes)), absl::StrCat(each.frames),
               absl::StrCat(each.marks), absl::StrCat(each.drops), absl::StrCat(each.pauses),
               Micros(each.paused_us)});
  }
  return absl::StrCat("\nThe longest queues, of ", results.links.size(),
                      results.links.size() == 1 ? " link" : " links", " with traffic:\n",
                      table.Text());
}

std::string Drops(const Results& results) {
  constexpr size_t kMost = 5;
  if (results.drops.empty()) return "";
  Table table({"link", "frames", "buffer full", "early", "link down", "lost on line"});
  for (size_t i = 0; i < std::min(results.drops.size(), kMost); ++i) {
    const LinkDrops& each = results.drops[i];
    table.Add({each.name, absl::StrCat(each.frames), absl::StrCat(each.tail_drops),
               absl::StrCat(each.early_drops), absl::StrCat(each.down_drops),
               absl::StrCat(each.losses)});
  }
  return absl::StrCat("\nThe most drops, of ", results.drops.size(),
                      results.drops.size() == 1 ? " link" : " links", " with any:\n", table.Text());
}

std::string Counters(const Totals& totals) {
  std::string text = absl::StrCat(
      "frames ", totals.frames, ", sent again ", totals.retransmitted, ", sequence NAKs ",
      totals.sequence_naks, ", timeouts ", totals.timeouts, ", tail loss probes ", totals.probes,
      "\nmarks ", totals.marks, ", CNPs ", totals.cnps, ", pauses ", totals.pauses, " (",
      Micros(totals.paused_us), "), dropped: buffer full ", totals.tail_drops, ", early ",
      totals.early_drops, ", link down ", totals.down_drops, ", lost on lines ", totals.losses);
  if (totals.scripted_drops != 0) absl::StrAppend(&text, ", by events ", totals.scripted_drops);
  if (totals.no_path != 0) absl::StrAppend(&text, ", without a path ", totals.no_path);
  if (totals.reordered != 0) absl::StrAppend(&text, "\nlate frames ", totals.reordered);
  if (totals.lost_slots != 0) {
    absl::StrAppend(&text, "\nWARNING: ", totals.lost_slots,
                    " frames found no room in the simulator, so these results are wrong");
  }
  return text + "\n";
}

}  // namespace

RunHead HeadOf(const std::string& name, const std::string& title, const RunPlan& plan) {
  const Network& network = plan.network;
  return {.name = name,
          .title = title,
          .hosts = static_cast<uint32_t>(network.hosts.size()),
          .switches = static_cast<uint32_t>(network.switches.size()),
          .links = static_cast<uint32_t>(network.hosts.size() + network.trunks.size()),
          .flows = plan.flows.size(),
          .seed = plan.seed};
}

std::string TextOf(const RunHead& head, const Results& results) {
  const Totals& totals = results.totals;
  std::string text = Heading(head);
  const auto micros = [](Nanos time) { return static_cast<double>(time.count()) / 1e3; };
  absl::StrAppend(&text, Micros(micros(results.simulated)), " simulated, measured from ",
                  Micros(micros(results.measured_from)), "\n\ngoodput ", Rate(totals.goodput_bps),
                  ", fairness ", absl::StrFormat("%.4f", totals.jain), ", queues up to ",
                  Bytes(static_cast<double>(totals.peak_queue_bytes)), ", mean of the longest ",
                  Bytes(totals.mean_queue_bytes), "\n", Counters(totals));
  if (results.is_deadlocked) {
    absl::StrAppend(&text,
                    "DEADLOCK: paused links wait for each other in a circle; no data has "
                    "come since ",
                    Micros(micros(results.last_progress)), "\n");
  }
  absl::StrAppend(&text, "\n", Groups(results), Sizes(results));
  if (results.message_us.count != 0) {
    const Quantiles& each = results.message_us;
    absl::StrAppend(&text, "\nMessages of flows without end, from post to completion: ", each.count,
                    ", p50 ", Micros(each.p50), ", p99 ", Micros(each.p99), ", p99.9 ",
                    Micros(each.p999), "\n");
  }
  absl::StrAppend(&text, Links(results), Drops(results));
  return text;
}

// ---- many runs ----

std::vector<std::pair<std::string, double>> Measures(const Results& results) {
  std::vector<double> times = results.times_us, slowdowns = results.slowdowns;
  const Quantiles time = QuantilesOf(std::move(times));
  const Quantiles slowdown = QuantilesOf(std::move(slowdowns));
  const Totals& totals = results.totals;
  uint64_t failed = 0, finished = 0;
  for (const GroupResult& each : results.groups) {
    failed += each.failed;
    finished += each.finished;
  }
  const auto number = [](uint64_t count) { return static_cast<double>(count); };
  std::vector<std::pair<std::string, double>> measures = {
      {"goodput_gbps", totals.goodput_bps / 1e9},
      {"fairness", totals.jain},
      {"flows_ended", number(finished)},
      {"flows_failed", number(failed)},
      {"time_p50_us", time.p50},
      {"time_p99_us", time.p99},
      {"time_p999_us", time.p999},
      {"slowdown_p50", slowdown.p50},
      {"slowdown_p99", slowdown.p99},
      {"message_p50_us", results.message_us.p50},
      {"message_p99_us", results.message_us.p99},
      {"retransmitted", number(totals.retransmitted)},
      {"timeouts", number(totals.timeouts)},
      {"marks", number(totals.marks)},
      {"cnps", number(totals.cnps)},
      {"pauses", number(totals.pauses)},
      {"drops", number(totals.tail_drops + totals.early_drops + totals.down_drops + totals.losses +
                       totals.scripted_drops)},
      {"queue_peak_kb", number(totals.peak_queue_bytes) / 1e3},
      {"queue_mean_kb", totals.mean_queue_bytes / 1e3}};
  if (results.groups.size() > 1) {
    for (const GroupResult& each : results.groups) {
      measures.emplace_back("goodput_gbps of " + each.name, each.goodput_bps / 1e9);
    }
  }
  return measures;
}

Estimate EstimateOf(const std::vector<double>& values) {
  // Student's t for 95 %, by degrees of freedom.
  constexpr std::array<double, 31> kT = {0,     12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                         2.306, 2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
                                         2.120, 2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069,
                                         2.064, 2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
  constexpr double kOfMany = 1.960;
  if (values.empty()) return {};
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double each : values) sum += each;
  const double mean = sum / count;
  for (const double each : values) squares += (each - mean) * (each - mean);
  if (values.size() == 1) return {.mean = mean};
  const size_t freedom = values.size() - 1;
  const double t = freedom < kT.size() ? kT[freedom] : kOfMany;
  return {.mean = mean, .half_width = t * std::sqrt(squares / (count - 1) / count)};
}

std::string TextOf(const RunHead& head, const std::vector<Comparison>& comparisons) {
  std::string text = Heading(head);
  absl::StrAppend(&text, "mean of ", comparisons.front().runs.size(),
                  " seeds each, and half of the 95 % confidence interval\n\n");
  std::vector<std::string> names = {"measure"};
  for (const Comparison& each : comparisons) {
    names.push_back(each.setting.empty() ? "all" : each.setting);
  }
  Table table(names);
  const size_t measures = Measures(comparisons.front().runs.front()).size();
  for (size_t i = 0; i < measures; ++i) {
    std::vector<std::string> row = {Measures(comparisons.front().runs.front())[i].first};
    bool is_empty = true;
    for (const Comparison& each : comparisons) {
      std::vector<double> values;
      for (const Results& run : each.runs) values.push_back(Measures(run)[i].second);
      const Estimate estimate = EstimateOf(values);
      is_empty &= estimate.mean == 0;
      row.push_back(each.runs.size() == 1
                        ? absl::StrFormat("%.6g", estimate.mean)
                        : absl::StrFormat("%.6g +- %.3g", estimate.mean, estimate.half_width));
    }
    if (!is_empty) table.Add(std::move(row));
  }
  return text + table.Text();
}

}  // namespace uroce::tools::sim
