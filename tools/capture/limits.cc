// SPDX-License-Identifier: Apache-2.0
#include "tools/capture/limits.h"

#include <cmath>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace uroce::tools {
namespace {

constexpr uint64_t kKilobyteBytes = 1000;
constexpr double kNanosPerSecond = 1e9;
constexpr uint64_t kMaxValue = 1'000'000'000'000;  // No unit overflows.
constexpr double kMaxSeconds = 1e9;

absl::Status BadLimit(absl::string_view option, absl::string_view text, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(option, " ", text, ": ", reason));
}

bool ParseSeconds(absl::string_view text, uint64_t& duration_ns) {
  double seconds = 0;
  if (!absl::SimpleAtod(text, &seconds) || !(seconds > 0) || seconds > kMaxSeconds) return false;
  duration_ns = static_cast<uint64_t>(std::ceil(seconds * kNanosPerSecond));
  return true;
}

bool ParseCount(absl::string_view text, uint64_t unit, uint64_t& value) {
  uint64_t count = 0;
  if (!absl::SimpleAtoi(text, &count) || count == 0 || count > kMaxValue) return false;
  value = count * unit;
  return true;
}

bool Exceeds(uint64_t amount, uint64_t limit) { return limit != 0 && amount >= limit; }

}  // namespace

absl::Status AddLimit(absl::string_view option, absl::string_view text, CaptureLimits& limits) {
  const size_t colon = text.find(':');
  const absl::string_view word = text.substr(0, colon);
  const absl::string_view value = colon == text.npos ? "" : text.substr(colon + 1);
  bool good = false;
  if (word == "filesize") {
    good = ParseCount(value, kKilobyteBytes, limits.bytes);
  } else if (word == "packets") {
    good = ParseCount(value, 1, limits.packets);
  } else if (word == "files") {
    good = ParseCount(value, 1, limits.files);
  } else if (word == "duration") {
    good = ParseSeconds(value, limits.duration_ns);
  } else {
    return BadLimit(option, text, "is none of filesize:KB, duration:SECONDS, packets:N, files:N");
  }
  if (!good) return BadLimit(option, text, "wants a number above 0 behind the colon");
  return absl::OkStatus();
}

bool BoundsOneFile(const CaptureLimits& limits) {
  return limits.bytes != 0 || limits.packets != 0 || limits.duration_ns != 0;
}

bool IsReached(const CaptureLimits& limits, const CaptureAmount& amount) {
  return Exceeds(amount.bytes, limits.bytes) || Exceeds(amount.packets, limits.packets) ||
         Exceeds(amount.duration_ns, limits.duration_ns);
}

}  // namespace uroce::tools
