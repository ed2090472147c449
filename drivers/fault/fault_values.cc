// SPDX-License-Identifier: Apache-2.0
#include "drivers/fault/fault_values.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace uroce::drivers {
namespace {

/// Longer than the delay of any path, and bounded, because delayed frames lie in bounded memory.
constexpr absl::Duration kMaxDelay = absl::Seconds(1);

}  // namespace

absl::Status BadFault(absl::string_view key, absl::string_view value, absl::string_view right) {
  return absl::InvalidArgumentError(absl::StrCat("fault: ", key, "=", value, ": ", right));
}

absl::Status ReadFaultDelay(absl::string_view key, const std::string& value, Nanos& delay) {
  absl::Duration parsed;
  const bool duration = absl::ParseDuration(value, &parsed);
  if (!duration || parsed < absl::ZeroDuration() || parsed > kMaxDelay) {
    return BadFault(key, value, "a time with its unit from 0s to 1s, for example 10us");
  }
  delay = Nanos(absl::ToInt64Nanoseconds(parsed));
  return absl::OkStatus();
}

}  // namespace uroce::drivers
