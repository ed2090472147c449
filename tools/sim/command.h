// SPDX-License-Identifier: Apache-2.0
// `uroce sim`: its options, and one call of it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace uroce::tools::sim {

struct SimOptions {
  std::string scenario;  ///< The name of a ready one, or a file.
  bool lists = false;
  bool shows = false;                  ///< Print the scenario's file.
  std::vector<std::string> overrides;  ///< "key=value".
  std::string sweep;                   ///< "key=a,b,c".
  uint32_t repeats = 1;
  bool runs_once = false;  ///< Without the sweep that the scenario brings.
  bool prints_json = false;
  std::string html;                ///< The file of the page; "" for none.
  std::string library;             ///< The plotting library of the page; "": where Debian has it.
  std::vector<std::string> pcaps;  ///< "host" or "host=file".
};

/// Errors: kInvalidArgument for options and scenarios; kDataLoss when output cannot be written.
absl::Status RunSim(const SimOptions& options);

}  // namespace uroce::tools::sim
