// SPDX-License-Identifier: Apache-2.0
// One HTML file with a report and its graphs, that opens without a network.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace uroce::tools::analyze {

/// `json`: a report with the points of its graphs. The page holds the plotting library d3 of
/// Debian's libjs-d3, which is read from `library_path`. Errors: kInvalidArgument when that file
/// cannot be read.
absl::StatusOr<std::string> PageOf(const std::string& json, const std::string& library_path);

/// Where Debian has d3.
inline constexpr char kLibraryPath[] = "/usr/share/javascript/d3/d3.min.js";

}  // namespace uroce::tools::analyze
