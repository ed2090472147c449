// SPDX-License-Identifier: Apache-2.0
// The results of simulations as text and as JSON (docs/sim.schema.json).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/sim/model/run.h"

namespace uroce::tools::sim {

/// What was run.
struct RunHead {
  std::string name;  ///< Of the scenario.
  std::string title;
  uint32_t hosts = 0, switches = 0, links = 0;
  uint64_t flows = 0;
  uint64_t seed = 1;
};
RunHead HeadOf(const std::string& name, const std::string& title, const RunPlan& plan);

std::string TextOf(const RunHead& head, const Results& results);
std::string JsonOf(const RunHead& head, const Results& results);

/// The numbers by which runs are compared: names and values, in a fixed order.
std::vector<std::pair<std::string, double>> Measures(const Results& results);

/// The runs with one setting, which differ in their seeds.
struct Comparison {
  std::string setting;  ///< "switch.ecn=off"; "" without --sweep.
  std::vector<Results> runs;
};
/// Mean and half of the 95 % confidence interval (Student's t).
struct Estimate {
  double mean = 0;
  double half_width = 0;  ///< 0 for a single run.
};
Estimate EstimateOf(const std::vector<double>& values);
std::string TextOf(const RunHead& head, const std::vector<Comparison>& comparisons);
std::string JsonOf(const RunHead& head, const std::vector<Comparison>& comparisons);

}  // namespace uroce::tools::sim
