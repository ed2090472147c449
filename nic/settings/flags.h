// SPDX-License-Identifier: Apache-2.0
// Parses the command line into settings. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nic/settings/config.h"

namespace uroce::nic {

struct CommandLine {
  bool help = false;
  bool version = false;
  std::string config_file;
  std::vector<Setting> settings;
};

/// Flags are --name=value or --name value, switches --name; '-' and '_' in names are the same.
/// Errors: one line that names the argument. Abbreviations and unknown arguments are errors.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

/// The text that --help prints.
std::string HelpText();

}  // namespace uroce::nic
