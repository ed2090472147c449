// SPDX-License-Identifier: Apache-2.0
// Suggests the existing name that is nearest to a name that does not exist.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace uroce {

/// Returns "; did you mean NAME?" with the nearest of `names`, or nothing. Near: at most one letter
/// in three (at least one) is changed, added, left out or swapped with its neighbour.
std::string Suggestion(absl::string_view word, const std::vector<std::string>& names);

/// Does the same for the first argument that `app`, a CLI::App, or its sub-command did not expect.
/// A template, so that only sources with a command line see the library that parses it.
template <typename App>
std::string SuggestionFor(const App& app) {
  const std::vector<std::string> unexpected = app.remaining(true);
  if (unexpected.empty()) return "";
  const auto chosen = app.get_subcommands();
  const App& parsed = chosen.empty() ? app : *chosen.front();
  std::vector<std::string> names;
  for (const auto* option : parsed.get_options()) names.push_back(option->get_name());
  for (const auto* command : parsed.get_subcommands({})) names.push_back(command->get_name());
  return Suggestion(unexpected.front().substr(0, unexpected.front().find('=')), names);
}

}  // namespace uroce
