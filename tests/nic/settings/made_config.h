// SPDX-License-Identifier: Apache-2.0
// Configurations from flags and from the text of a file, as the daemon makes them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nic/net/address.h"
#include "nic/settings/config.h"
#include "nic/settings/config_file.h"
#include "nic/settings/flags.h"

namespace uroce::nic {

inline absl::StatusOr<Config> FromFlags(const std::vector<std::string>& arguments) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(arguments);
  if (!line.ok()) return line.status();
  return MakeConfig(line->settings, "/run/uroce/uroced.sock");
}

inline absl::StatusOr<Config> FromFile(absl::string_view text) {
  const absl::StatusOr<std::vector<Setting>> settings = ParseConfigFile(text, "uroced.toml");
  if (!settings.ok()) return settings.status();
  return MakeConfig(*settings, "/run/uroce/uroced.sock");
}

inline InterfaceAddress Address(const char* text) { return ParseInterfaceAddress(text).value(); }

}  // namespace uroce::nic
