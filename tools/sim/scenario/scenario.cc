// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/scenario/scenario.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pipeline/os/suggestion.h"
#include "tools/sim/scenario/topology.h"
#include "tools/sim/scenario/workload.h"

namespace uroce::tools::sim {

// Made by the build from tools/sim/scenarios: names and texts in turn, and a null at the end.
extern const char* const kReadyScenarios[];

const std::vector<ReadyScenario>& ReadyScenarios() {
  static const auto* const kAll = [] {
    auto* all = new std::vector<ReadyScenario>;
    for (const char* const* at = kReadyScenarios; *at != nullptr; at += 2) {
      all->push_back({at[0], at[1]});
    }
    return all;
  }();
  return *kAll;
}

std::string TextOfKey(const std::string& text, const std::string& key) {
  const absl::StatusOr<Node> document = ParseDocument(text, "");
  const Node* const node = document.ok() ? document->Find(key) : nullptr;
  return node == nullptr ? "" : node->text;
}

absl::StatusOr<ScenarioText> FindScenario(const std::string& name) {
  std::vector<std::string> names;
  for (const ReadyScenario& each : ReadyScenarios()) {
    if (each.name == name) {
      return ScenarioText{.name = name, .file = name + ".toml", .folder = "", .text = each.text};
    }
    names.push_back(each.name);
  }
  std::ifstream file(name, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    const std::string why = errno == 0 ? "cannot be read" : strerror(errno);
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", why, ", and it is no ready scenario (uroce sim --list)",
                     Suggestion(name, names)));
  }
  const size_t slash = name.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : name.substr(0, slash + 1);
  return ScenarioText{
      .name = name.substr(folder.size()), .file = name, .folder = folder, .text = text.str()};
}

absl::StatusOr<RunPlan> PlanOf(const ScenarioText& scenario,
                               const std::vector<Override>& overrides) {
  absl::StatusOr<Node> document = ParseDocument(scenario.text, scenario.file);
  if (!document.ok()) return document.status();
  for (const auto& [path, value] : overrides) {
    if (absl::Status status = SetValue(*document, path, value); !status.ok()) return status;
  }
  Errors errors(scenario.file);
  Section root(*document, "", errors);
  RunPlan plan;
  root.Text("title");
  root.Text("sweep");
  if (!root.Has("duration")) root.Fail("duration", "is missing: the most virtual time, as 20ms");
  plan.duration = root.Time("duration", Nanos(1'000'000));
  if (plan.duration == Nanos(0)) root.Fail("duration", "must be more than 0s");
  plan.warm_up = root.Time("warm_up", Nanos(0));
  if (plan.warm_up >= plan.duration) root.Fail("warm_up", "must be shorter than duration");
  plan.seed = root.Amount("seed", 1, 0, 1'000'000'000'000);
  plan.samples = root.Count("samples", 500, 1, 100'000);
  plan.network = ReadNetwork(root);
  if (!errors.status().ok()) return errors.status();
  ReadWorkloads(root, scenario.folder, plan);
  if (!errors.status().ok()) return errors.status();
  ReadEvents(root, plan);
  root.Finish();
  if (!errors.status().ok()) return errors.status();
  return plan;
}

}  // namespace uroce::tools::sim
