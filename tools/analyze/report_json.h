// SPDX-License-Identifier: Apache-2.0
// A report for programs: JSON, whose schema is docs/analyze.schema.json, and CSV.
#pragma once

#include <string>

#include "tools/analyze/report.h"

namespace uroce::tools::analyze {

/// One object. Times are nanoseconds since the first frame. The points of graphs are there if the
/// analysis kept them.
std::string JsonOf(const Report& report);

/// The findings, one row each, below a row of names.
std::string CsvOf(const Report& report);

}  // namespace uroce::tools::analyze
