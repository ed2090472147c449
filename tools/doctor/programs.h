// SPDX-License-Identifier: Apache-2.0
// Programs and libraries that people use with uroce, and the packages that have them.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/finding.h"

namespace uroce::tools {

struct ProgramFacts {
  std::vector<std::string> found;  ///< Of the programs that are looked for.
  std::string library;             ///< liburoce.so, or "" when it is not found.
  bool has_libibverbs = false;
  bool extcap_installed = false;  ///< Wireshark finds uroce-extcap.
  std::string uroce;              ///< This program's own path, for commands.
};

/// From $PATH, the loader and Wireshark's folders.
ProgramFacts ReadPrograms();
Findings CheckPrograms(const ProgramFacts& facts);

}  // namespace uroce::tools
