// SPDX-License-Identifier: Apache-2.0
// Which settings may change while the daemon runs. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nic/settings/config.h"

namespace uroce::nic {

/// Checks that `next` differs from `now`, with which the daemon runs, only in what may change: the
/// log level, limits that are no sizes of tables, and rate, congestion control and faults of NICs.
/// Errors: FailedPrecondition, one line that names the key of the first other difference.
absl::Status CheckChange(const Config& now, const Config& next);

/// The keys of such differences: "log_level", "limits.max_qp", "uroce0.rate".
std::vector<std::string> ChangedKeys(const Config& now, const Config& next);

/// The NIC of this name, or null.
const DeviceConfig* FindNic(const Config& config, const std::string& name);

}  // namespace uroce::nic
