// SPDX-License-Identifier: Apache-2.0
// The result of a check of `uroce doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace uroce::tools {

enum class Level : uint8_t {
  kOk,
  kNote,     ///< All works; something could be added or be faster.
  kProblem,  ///< Something does not work, or soon will not.
};

/// One line for people, and the command that mends what the line says.
struct Finding {
  Level level = Level::kOk;
  std::string check;  ///< The group of the check: "daemon", "kernel".
  std::string text;
  std::string fix;  ///< A command for a shell; "" when there is nothing to do.
};

using Findings = std::vector<Finding>;

}  // namespace uroce::tools
