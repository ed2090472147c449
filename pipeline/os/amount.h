// SPDX-License-Identifier: Apache-2.0
// Numbers as people write them in settings: 100K, 25G, 20%.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace uroce {

/// Parses a number with an optional suffix: K is 10^3, M is 10^6, G is 10^9. At most 10^15.
std::optional<uint64_t> ParseAmount(absl::string_view text);

/// Parses "20%" as 0.2. From 0 % to 100 %.
std::optional<double> ParsePercent(absl::string_view text);

}  // namespace uroce
