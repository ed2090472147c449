// SPDX-License-Identifier: Apache-2.0
// Many runs of a scenario, on all cores, and what runs show while they go on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/sim/report/report.h"
#include "tools/sim/scenario/scenario.h"

namespace uroce::tools::sim {

/// A key and the values that it gets in turn.
struct Sweep {
  std::string key;
  std::vector<std::string> values;
};

/// Runs a scenario `repeats` times, with seeds from its own on, for each value of the sweep.
/// The results do not depend on the number of threads. `on_run` is called after each run, from one
/// thread at a time. Errors: those of PlanOf.
absl::StatusOr<std::vector<Comparison>> RunAll(
    const ScenarioText& scenario, const std::vector<Override>& overrides, const Sweep& sweep,
    uint32_t repeats, const std::function<void(uint32_t done, uint32_t all)>& on_run);

/// A line on a terminal that is written again and again. Writes nothing where stderr is none.
class ProgressLine {
 public:
  explicit ProgressLine(Nanos duration);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(const RunProgress& progress);
  void ShowRuns(uint32_t done, uint32_t all);

 private:
  /// Whether the last line is so old that another one is due.
  bool IsDue();

  const Nanos duration_;
  const bool is_terminal_;
  const Nanos began_;
  Nanos shown_{0};
};

}  // namespace uroce::tools::sim
