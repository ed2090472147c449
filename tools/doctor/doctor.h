// SPDX-License-Identifier: Apache-2.0
// `uroce doctor`: finds what this machine lacks, and the commands that mend it.
#pragma once

#include <string>

#include "tools/doctor/finding.h"

namespace uroce::tools {

/// Runs all checks on this machine, with the daemon of `socket_path`.
Findings Examine(const std::string& socket_path);

/// One line for each finding, its command below it, and a last line with the counts.
std::string RenderFindings(const Findings& findings);
/// {"findings": [{"level", "check", "text", "fix"}], "problems": n, "notes": n}
std::string FindingsToJson(const Findings& findings);

/// How many findings are of `level`.
size_t CountOf(const Findings& findings, Level level);

}  // namespace uroce::tools
