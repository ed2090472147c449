// SPDX-License-Identifier: Apache-2.0
// Parses numbers with a suffix, and rates. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace uroce::nic {

/// Parses a number with an optional suffix: K is 10^3, M is 10^6, G is 10^9.
std::optional<uint64_t> ParseAmount(absl::string_view text);

/// Parses a rate in bits per second, 1M to 400G. Errors: one line that says what would be right.
absl::Status ParseRate(absl::string_view text, uint64_t& rate_bps);

}  // namespace uroce::nic
