// SPDX-License-Identifier: Apache-2.0
// Parses the configuration file into settings. Pure: takes the text, not the file.
#pragma once

#include <string>

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nic/settings/config.h"

namespace uroce::nic {

/// Parses TOML: settings by name, limits by name in [limits], [[port]] and [[switch]] tables
/// with the keys of these flags, and [[wire]] tables with two names. A list of addresses is an
/// array or one string. Errors: one line that begins with `name` and the key or the line
/// number.
absl::StatusOr<std::vector<Setting>> ParseConfigFile(absl::string_view text,
                                                     const std::string& name);

}  // namespace uroce::nic
