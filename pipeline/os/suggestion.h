// SPDX-License-Identifier: Apache-2.0
// Suggests the existing name that is nearest to a name that does not exist.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace CLI {
class App;
}

namespace uroce {

/// Returns "; did you mean NAME?" with the nearest of `names`, or nothing. Near: at most one letter
/// in three (at least one) is changed, added, left out or swapped with its neighbour.
std::string Suggestion(absl::string_view word, const std::vector<std::string>& names);

/// Does the same for the first argument that `app` or its sub-command did not expect.
std::string SuggestionFor(const CLI::App& app);

}  // namespace uroce
