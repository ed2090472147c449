// SPDX-License-Identifier: Apache-2.0
// The settings of the daemon as a file that `uroced --config` takes.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace uroce::tools {

/// TOML of a dump UROCE_DUMP_CONFIG: settings, [limits], then [[port]], [[wire]] and [[switch]].
absl::StatusOr<std::string> RenderConfig(const std::string& json);

}  // namespace uroce::tools
