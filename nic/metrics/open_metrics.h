// SPDX-License-Identifier: Apache-2.0
// The daemon's counters in the text format of OpenMetrics 1.0. Pure.
#pragma once

#include <string>

#include "nic/metrics/snapshot.h"

namespace uroce::nic {

inline constexpr char kOpenMetricsType[] =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The programs with the most queue pairs have a line each, up to this number; the others share
/// the line of program="other".
inline constexpr size_t kMaxProgramLabels = 64;

/// Every counter of a device becomes a family uroce_<name>, with a text from the table in the
/// source, or its name when the table does not have it.
std::string OpenMetrics(const Snapshot& snapshot);

}  // namespace uroce::nic
