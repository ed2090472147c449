// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/command.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/page/page.h"
#include "tools/sim/recorder.h"
#include "tools/sim/report/report.h"
#include "tools/sim/runs.h"
#include "tools/sim/scenario/scenario.h"

namespace uroce::tools::sim {

// Made by the build, which embeds the files of tools/sim/page (tools/embed.py).
extern const char kPageStyle[];
extern const char kPageBody[];
extern const char kPageScript[];

namespace {

absl::Status Print(const std::string& text) {
  if (fwrite(text.data(), 1, text.size(), stdout) == text.size() && fflush(stdout) == 0) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("standard output: ", strerror(errno)));
}

std::string ListText() {
  std::string text;
  for (const ReadyScenario& each : ReadyScenarios()) {
    absl::StrAppend(&text, each.name, std::string(20 - std::min<size_t>(19, each.name.size()), ' '),
                    TextOfKey(each.text, "title"), "\n");
  }
  return text + "uroce sim --show NAME prints a scenario's file.\n";
}

/// "key=value" as a pair; nothing without '='.
std::optional<Override> SplitOverride(const std::string& text) {
  std::pair<std::string, std::string> pair = absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (pair.first.size() == text.size()) return std::nullopt;
  return pair;
}

absl::StatusOr<std::vector<Override>> OverridesOf(const SimOptions& options) {
  std::vector<Override> overrides;
  for (const std::string& each : options.overrides) {
    const auto pair = SplitOverride(each);
    if (!pair) {
      return absl::InvalidArgumentError(
          absl::StrCat("--set: \"", each, "\" is not KEY=VALUE, such as switch.ecn=off"));
    }
    overrides.push_back(*pair);
  }
  return overrides;
}

absl::Status RunMany(const SimOptions& options, const ScenarioText& scenario,
                     const std::vector<Override>& overrides, const std::string& swept) {
  if (!options.html.empty() || !options.pcaps.empty()) {
    return absl::InvalidArgumentError(
        "--html and --pcap are for one run, without --sweep and --repeat");
  }
  Sweep sweep;
  if (!swept.empty()) {
    const auto pair = SplitOverride(swept);
    if (!pair) {
      return absl::InvalidArgumentError(absl::StrCat("--sweep: \"", swept, "\" is not KEY=A,B,C"));
    }
    sweep = {.key = pair->first, .values = absl::StrSplit(pair->second, ',')};
  }
  const absl::StatusOr<RunPlan> plan = PlanOf(scenario, overrides);
  if (!plan.ok()) return plan.status();
  absl::StatusOr<std::vector<Comparison>> comparisons;
  {
    ProgressLine progress(plan->duration);
    comparisons = RunAll(scenario, overrides, sweep, options.repeats,
                         [&](uint32_t done, uint32_t all) { progress.ShowRuns(done, all); });
  }
  if (!comparisons.ok()) return comparisons.status();
  const RunHead head = HeadOf(scenario.name, TextOfKey(scenario.text, "title"), *plan);
  return Print(options.prints_json ? JsonOf(head, *comparisons) : TextOf(head, *comparisons));
}

absl::Status RunOne(const SimOptions& options, const ScenarioText& scenario,
                    const std::vector<Override>& overrides) {
  const absl::StatusOr<RunPlan> plan = PlanOf(scenario, overrides);
  if (!plan.ok()) return plan.status();
  absl::StatusOr<std::unique_ptr<Recorder>> recorder =
      Recorder::Open(plan->network, scenario.name, options.pcaps);
  if (!recorder.ok()) return recorder.status();
  Results results;
  {
    ProgressLine progress(plan->duration);
    RunWatch watch;
    watch.on_progress = [&](const RunProgress& each) { progress.Show(each); };
    (*recorder)->Watch(watch);
    results = Run(*plan, watch);
  }
  if (absl::Status status = (*recorder)->Finish(); !status.ok()) return status;
  const RunHead head = HeadOf(scenario.name, TextOfKey(scenario.text, "title"), *plan);
  if (!options.html.empty()) {
    const PageParts parts{"uroce sim", kPageStyle, kPageBody, kPageScript};
    absl::Status status = WritePage(parts, JsonOf(head, results), options.library, options.html);
    if (!status.ok()) return status;
  }
  return Print(options.prints_json ? JsonOf(head, results) : TextOf(head, results));
}

}  // namespace

absl::Status RunSim(const SimOptions& options) {
  if (options.lists) return Print(ListText());
  if (options.scenario.empty()) {
    return absl::InvalidArgumentError("no scenario: name a file, or one of uroce sim --list");
  }
  const absl::StatusOr<ScenarioText> scenario = FindScenario(options.scenario);
  if (!scenario.ok()) return scenario.status();
  if (options.shows) return Print(scenario->text);
  const absl::StatusOr<std::vector<Override>> overrides = OverridesOf(options);
  if (!overrides.ok()) return overrides.status();
  // A scenario may bring its sweep, unless something is asked for that only one run has.
  const bool is_one = !options.html.empty() || !options.pcaps.empty() || options.runs_once;
  std::string swept = options.sweep;
  if (swept.empty() && !is_one) swept = TextOfKey(scenario->text, "sweep");
  if (options.repeats == 1 && swept.empty()) return RunOne(options, *scenario, *overrides);
  return RunMany(options, *scenario, *overrides, swept);
}

}  // namespace uroce::tools::sim
