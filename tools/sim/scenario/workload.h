// SPDX-License-Identifier: Apache-2.0
// The flows of scenarios: who sends what to whom, from the kinds of workloads and the seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/sim/model/agenda.h"
#include "tools/sim/model/run.h"
#include "tools/sim/scenario/document.h"

namespace uroce::tools::sim {

/// Reads all [[workload]] and adds their groups and flows to `plan`, whose network, duration and
/// seed are set. `folder`: where files of traces with relative names lie.
void ReadWorkloads(Section& scenario, const std::string& folder, RunPlan& plan);

/// Reads all [[event]] into `plan`, whose flows are set.
void ReadEvents(Section& scenario, RunPlan& plan);

}  // namespace uroce::tools::sim
