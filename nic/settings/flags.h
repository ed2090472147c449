// SPDX-License-Identifier: Apache-2.0
// Parses the command line into settings. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nic/settings/config.h"

namespace uroce::nic {

/// Which options a help text has.
enum class HelpKind : uint8_t { kCommon, kAll };

struct CommandLine {
  std::optional<HelpKind> help;  ///< Asked for by --help or --help-all.
  bool version = false;
  std::string config_file;
  std::vector<Setting> settings;
};

/// Flags are --name=value or --name value, switches --name; '-' and '_' in names are the same.
/// Errors: one line that names the argument. Abbreviations and unknown arguments are errors.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

/// The text that --help prints: twelve options at most; or --help-all: all of them, in sections.
std::string HelpText(HelpKind kind);

}  // namespace uroce::nic
