// SPDX-License-Identifier: Apache-2.0
// What must hold of flags and files of settings for any bytes whatever.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "nic/config_file.h"
#include "nic/flags.h"

namespace uroce::nic {

/// Whether it is no error, or one that says something.
inline bool IsSaid(const absl::Status& status) { return status.ok() || !status.message().empty(); }

/// Takes `text` for a file in TOML, and for flags, one a line. False: it is refused without a word.
inline bool ConfigHolds(const std::string& text) {
  const auto file = ParseConfigFile(text, "uroced.toml");
  if (!IsSaid(file.status())) return false;
  if (file.ok() && !IsSaid(MakeConfig(*file, "/s").status())) return false;
  const std::vector<std::string> flags = absl::StrSplit(text, '\n');
  const auto line = ParseCommandLine(flags);
  return IsSaid(line.status()) && (!line.ok() || IsSaid(MakeConfig(line->settings, "/s").status()));
}

}  // namespace uroce::nic
