// SPDX-License-Identifier: Apache-2.0
// Shows rates between two dumps: of counters, and of the programs and queue pairs that send and
// receive most.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/views/dump_view.h"

namespace uroce::tools {

// ---- Counters ----

/// A table of the counters that changed from `before` to `after`, two dumps of UROCE_DUMP_STAT
/// `seconds` apart: the difference and the rate. A counter that decreased is of a daemon that was
/// restarted, and counts from 0. `device` "" stands for all devices.
absl::StatusOr<std::string> RenderRates(const std::string& before, const std::string& after,
                                        double seconds, const std::string& device);

/// `value` with three digits, an SI prefix and the unit: "12.3 Mb/s".
std::string ScaledText(double value, absl::string_view unit);

/// The name to show. Counters are below their own member, whose name is left out.
std::string CounterName(const std::string& name);

// ---- Programs and queue pairs ----

/// Programs, and below them queue pairs, those with the highest rates first. `before` and `after`
/// are two dumps of UROCE_DUMP_QP, `seconds` apart (> 0). A queue pair that `before` does not have
/// counts from 0. Rates are of packets with all headers, in bits per second.
absl::StatusOr<std::string> RenderTop(const std::string& before, const std::string& after,
                                      double seconds, const Selection& select);

}  // namespace uroce::tools
