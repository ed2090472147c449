// SPDX-License-Identifier: Apache-2.0
// Finds programs and libraries that people use with uroce, and names the packages that have them.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/finding.h"

namespace uroce::tools {

struct ProgramFacts {
  std::vector<std::string> found;  ///< The programs that were found, of those looked for.
  std::string library;             ///< liburoce.so, or "" when it is not found.
  bool has_libibverbs = false;
  bool extcap_installed = false;  ///< Wireshark finds uroce-extcap.
  std::string uroce;              ///< This program's own path, for commands.
};

/// Looks at $PATH, the loader and Wireshark's folders.
ProgramFacts ReadPrograms();
Findings CheckPrograms(const ProgramFacts& facts);

}  // namespace uroce::tools
