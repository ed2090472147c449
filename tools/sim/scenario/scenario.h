// SPDX-License-Identifier: Apache-2.0
// A scenario: one TOML file, ready ones by name.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/sim/model/run.h"
#include "tools/sim/scenario/document.h"

namespace uroce::tools::sim {

/// A scenario that the tool brings along.
struct ReadyScenario {
  std::string name;
  std::string text;
};
const std::vector<ReadyScenario>& ReadyScenarios();
/// The text of a key of a scenario's first lines, such as title; "" without it.
std::string TextOfKey(const std::string& text, const std::string& key);

/// The text of a scenario, and where it is from.
struct ScenarioText {
  std::string name;    ///< Of the scenario: for titles.
  std::string file;    ///< For errors.
  std::string folder;  ///< Of files that it names, with a "/" at the end; or "".
  std::string text;
};
/// `name`: of a ready scenario, or a file. Errors: kInvalidArgument, one line.
absl::StatusOr<ScenarioText> FindScenario(const std::string& name);

/// A value that replaces one of the scenario: "switch.ecn" and "off".
using Override = std::pair<std::string, std::string>;

/// Parses a scenario. Errors: kInvalidArgument, "file:line: key: what is wrong".
absl::StatusOr<RunPlan> PlanOf(const ScenarioText& scenario,
                               const std::vector<Override>& overrides);

}  // namespace uroce::tools::sim
