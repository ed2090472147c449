// SPDX-License-Identifier: Apache-2.0
#include "drivers/fault/fault_config.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

namespace uroce::drivers {
namespace {

/// Longer than the delay of any path, and bounded, because delayed frames lie in bounded memory.
constexpr absl::Duration kMaxDelay = absl::Seconds(1);

absl::Status Bad(const std::string& key, const std::string& value, const char* right) {
  return absl::InvalidArgumentError(absl::StrCat("fault: ", key, "=", value, ": ", right));
}

absl::Status SetRate(const std::string& key, const std::string& value, double& rate) {
  double parsed = 0;
  const bool number = absl::SimpleAtod(value, &parsed);
  // Written so that NaN is refused too.
  const bool in_range = parsed >= 0 && parsed <= 1;
  if (!number || !in_range) return Bad(key, value, "a rate is a number from 0 to 1");
  rate = parsed;
  return absl::OkStatus();
}

absl::Status SetDelay(const std::string& value, Nanos& delay) {
  absl::Duration parsed;
  const bool duration = absl::ParseDuration(value, &parsed);
  if (!duration || parsed < absl::ZeroDuration() || parsed > kMaxDelay) {
    return Bad("delay", value, "a time with its unit from 0s to 1s, for example 10us");
  }
  delay = Nanos(absl::ToInt64Nanoseconds(parsed));
  return absl::OkStatus();
}

absl::Status SetDirection(const std::string& value, FaultConfig::Direction& direction) {
  using Direction = FaultConfig::Direction;
  for (const auto& [name, meaning] :
       {std::pair{"both", Direction::kBoth}, std::pair{"rx", Direction::kReceive},
        std::pair{"tx", Direction::kTransmit}}) {
    if (value != name) continue;
    direction = meaning;
    return absl::OkStatus();
  }
  return Bad("dir", value, "one of both, rx, tx");
}

absl::Status SetValue(const std::string& key, const std::string& value, FaultConfig& config) {
  if (key == "drop") return SetRate(key, value, config.drop);
  if (key == "duplicate") return SetRate(key, value, config.duplicate);
  if (key == "reorder") return SetRate(key, value, config.reorder);
  if (key == "corrupt") return SetRate(key, value, config.corrupt);
  if (key == "ce") return SetRate(key, value, config.ce_mark);
  if (key == "delay") return SetDelay(value, config.delay);
  if (key == "dir") return SetDirection(value, config.direction);
  if (key == "seed") {
    if (absl::SimpleAtoi(value, &config.seed)) return absl::OkStatus();
    return Bad(key, value, "a seed is a whole number from 0");
  }
  return Bad(key, value,
             "unknown key; known are seed, drop, duplicate, reorder, corrupt, ce, delay, dir");
}

}  // namespace

absl::StatusOr<FaultConfig> ParseFault(const std::string& text) {
  FaultConfig config;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    const std::vector<std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (pair.size() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("fault: \"", part, "\" is not KEY=VALUE, for example drop=0.01"));
    }
    const absl::Status status = SetValue(pair[0], pair[1], config);
    if (!status.ok()) return status;
  }
  return config;
}

}  // namespace uroce::drivers
