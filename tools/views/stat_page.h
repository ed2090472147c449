// SPDX-License-Identifier: Apache-2.0
// The page of `uroce stat --html`: counters, and how they rose between looks.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace uroce::tools {

/// Keeps looks at counters and writes a page of them, which opens without a network.
class StatPage {
 public:
  /// Of more looks every second one is forgotten.
  static constexpr size_t kMostLooks = 600;

  /// `library`: where d3 lies; "" is where Debian's libjs-d3 has it.
  StatPage(std::string file, std::string library)
      : file_(std::move(file)), library_(std::move(library)) {}

  /// Adds `json`, what `uroce stat --json` prints, and writes the page again: a reader finds the
  /// old page or the new one. Errors: kInvalidArgument when a file cannot be read or written.
  absl::Status Add(const std::string& json, absl::Time time);
  /// The report that the page holds, as JSON.
  std::string Report() const;

 private:
  const std::string file_;
  const std::string library_;
  std::vector<std::string> looks_;
};

}  // namespace uroce::tools
