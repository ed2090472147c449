// SPDX-License-Identifier: Apache-2.0
// Rates of counters between two dumps.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace uroce::tools {

/// A table of the counters that changed from `before` to `after`, two dumps of UROCE_DUMP_STAT that
/// lie `seconds` apart: by how much, and the rate. A counter that went back belongs to a daemon
/// that was started anew: it counts from 0. `device` "" is all.
absl::StatusOr<std::string> RenderRates(const std::string& before, const std::string& after,
                                        double seconds, const std::string& device);

/// A number of a unit with three digits and an SI prefix: "12.3 Mb/s".
std::string ScaledText(double value, absl::string_view unit);

/// Counters lie below a member of their own, whose name says nothing to people.
std::string CounterName(const std::string& name);

}  // namespace uroce::tools
