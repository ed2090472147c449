// SPDX-License-Identifier: Apache-2.0
#include "pipeline/os/amount.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace uroce {

std::optional<uint64_t> ParseAmount(absl::string_view text) {
  double factor = 1;
  for (const auto& [unit, meaning] :
       {std::pair("K", 1e3), std::pair("M", 1e6), std::pair("G", 1e9)}) {
    if (absl::ConsumeSuffix(&text, unit)) {
      factor = meaning;
      break;
    }
  }
  double number = 0;
  const bool is_number = absl::SimpleAtod(text, &number);
  // This form of the comparison refuses NaN too.
  const bool in_range = number >= 0 && number * factor <= 1e15;
  if (!is_number || !in_range) return std::nullopt;
  return static_cast<uint64_t>(std::llround(number * factor));
}

std::optional<double> ParsePercent(absl::string_view text) {
  double percent = 0;
  if (!absl::ConsumeSuffix(&text, "%") || !absl::SimpleAtod(text, &percent)) return std::nullopt;
  const bool in_range = percent >= 0 && percent <= 100;
  if (!in_range) return std::nullopt;
  return percent / 100;
}

}  // namespace uroce
