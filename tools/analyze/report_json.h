// SPDX-License-Identifier: Apache-2.0
// A report for programs: JSON, whose schema is docs/analyze.schema.json, and CSV.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "tools/analyze/report.h"

namespace uroce::tools::analyze {

/// Takes a text in pieces.
using TextSink = absl::FunctionRef<void(absl::string_view)>;

/// One object. Times are nanoseconds since the first frame. The points of graphs are there if the
/// analysis kept them. A piece of the text belongs to one connection or finding at most.
void WriteJson(const Report& report, TextSink sink);

/// The findings, one row each, below a row of names.
std::string CsvOf(const Report& report);

}  // namespace uroce::tools::analyze
