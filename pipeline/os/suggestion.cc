// SPDX-License-Identifier: Apache-2.0
#include "pipeline/os/suggestion.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace uroce {
namespace {

/// The number of letters to change, add, leave out or swap with their neighbour: the optimal string
/// alignment distance.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  const size_t width = b.size() + 1;
  std::vector<size_t> costs((a.size() + 1) * width);
  const auto cost = [&](size_t i, size_t j) -> size_t& { return costs[i * width + j]; };
  for (size_t i = 0; i <= a.size(); ++i) cost(i, 0) = i;
  for (size_t j = 0; j <= b.size(); ++j) cost(0, j) = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = cost(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost(i, j) = std::min({change, cost(i - 1, j) + 1, cost(i, j - 1) + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost(i, j) = std::min(cost(i, j), cost(i - 2, j - 2) + 1);
    }
  }
  return cost(a.size(), b.size());
}

}  // namespace

std::string Suggestion(absl::string_view word, const std::vector<std::string>& names) {
  const std::string* nearest = nullptr;
  size_t least = std::max<size_t>(word.size() / 3, 1) + 1;
  for (const std::string& name : names) {
    const size_t distance = EditDistance(word, name);
    if (distance >= least) continue;
    least = distance;
    nearest = &name;
  }
  return nearest == nullptr ? "" : absl::StrCat("; did you mean ", *nearest, "?");
}

}  // namespace uroce
