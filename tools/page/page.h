// SPDX-License-Identifier: Apache-2.0
// One HTML file with a report and its graphs, that opens without a network.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace uroce::tools {

/// What differs between the pages of reports. All are of static storage.
struct PageParts {
  const char* title = "";
  const char* style = "";
  const char* body = "";
  const char* script = "";
};

/// `json`: a report with the points of its graphs, which the script finds in the element "report".
/// The page holds the plotting library d3 of Debian's libjs-d3, which is read from `library_path`,
/// or where Debian has it if that is "". Errors: kInvalidArgument when that file cannot be read.
absl::StatusOr<std::string> PageOf(const PageParts& parts, const std::string& json,
                                   const std::string& library_path);

/// Makes the page and writes it to `file`. Errors: kInvalidArgument.
absl::Status WritePage(const PageParts& parts, const std::string& json,
                       const std::string& library_path, const std::string& file);

}  // namespace uroce::tools
