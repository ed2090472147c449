// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/amount.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace uroce::nic {
namespace {

constexpr uint64_t kMinRate = 1'000'000;
constexpr uint64_t kMaxRate = 400'000'000'000;

}  // namespace

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

absl::Status ParseRate(absl::string_view text, uint64_t& rate_bps) {
  const auto parsed = ParseAmount(text);
  if (!parsed || *parsed < kMinRate || *parsed > kMaxRate) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" is not a rate in bits per second from 1M to 400G, such as 10G"));
  }
  rate_bps = *parsed;
  return absl::OkStatus();
}

}  // namespace uroce::nic
