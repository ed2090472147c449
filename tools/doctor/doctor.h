// SPDX-License-Identifier: Apache-2.0
// `uroce doctor`: finds what this machine lacks, the programs that people use with uroce, and the
// commands that mend what is missing.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/machine.h"

namespace uroce::tools {

// ---- Programs and libraries, and the packages that have them ----

struct ProgramFacts {
  std::vector<std::string> found;  ///< The programs that were found, of those looked for.
  std::string library;             ///< liburoce.so, or "" when it is not found.
  bool has_front = false;          ///< liburoce-verbs.so lies beside it.
  bool has_libibverbs = false;
  bool extcap_installed = false;  ///< Wireshark finds uroce-extcap.
  std::string uroce;              ///< This program's own path, for commands.
};

/// Looks at $PATH, the loader and Wireshark's folders.
ProgramFacts ReadPrograms();
Findings CheckPrograms(const ProgramFacts& facts);

// ---- All checks ----

/// Runs all checks on this machine, with the daemon of `socket_path`.
Findings Examine(const std::string& socket_path);

/// One line for each finding, its command below it, and a last line with the counts.
std::string RenderFindings(const Findings& findings);
/// {"findings": [{"level", "check", "text", "fix"}], "problems": n, "notes": n}
std::string FindingsToJson(const Findings& findings);

/// How many findings are of `level`.
size_t CountOf(const Findings& findings, Level level);

}  // namespace uroce::tools
