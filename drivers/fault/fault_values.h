// SPDX-License-Identifier: Apache-2.0
// Values that several keys of faults have.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "pipeline/base/types.h"

namespace uroce::drivers {

inline constexpr char kRightDirection[] = "one of both, rx, tx";

/// "fault: KEY=VALUE: RIGHT".
absl::Status BadFault(absl::string_view key, absl::string_view value, absl::string_view right);

/// Range: 0 s to 1 s, with a unit. Errors: one line with `key`.
absl::Status ReadFaultDelay(absl::string_view key, const std::string& value, Nanos& delay);

}  // namespace uroce::drivers
