// SPDX-License-Identifier: Apache-2.0
#include "drivers/fault/fault_config.h"

#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "drivers/fault/fault_values.h"

namespace uroce::drivers {
namespace {

absl::Status SetRate(const std::string& key, const std::string& value, double& rate) {
  double parsed = 0;
  const bool number = absl::SimpleAtod(value, &parsed);
  // Written so that NaN is refused too.
  const bool in_range = parsed >= 0 && parsed <= 1;
  if (!number || !in_range) return BadFault(key, value, "a rate is a number from 0 to 1");
  rate = parsed;
  return absl::OkStatus();
}

absl::Status SetValue(const std::string& key, const std::string& value, FaultConfig& config) {
  if (key == "drop") return SetRate(key, value, config.drop);
  if (key == "duplicate") return SetRate(key, value, config.duplicate);
  if (key == "reorder") return SetRate(key, value, config.reorder);
  if (key == "corrupt") return SetRate(key, value, config.corrupt);
  if (key == "ce") return SetRate(key, value, config.ce_mark);
  if (key == "delay") return ReadFaultDelay(key, value, config.delay);
  if (key == "link") {
    if (value != "up" && value != "down") return BadFault(key, value, "a link is up or down");
    config.link_down = value == "down";
    return absl::OkStatus();
  }
  if (key == "dir") {
    const std::optional<FaultDirection> direction = ParseDirection(value);
    if (!direction) return BadFault(key, value, kRightDirection);
    config.direction = *direction;
    return absl::OkStatus();
  }
  if (key == "seed") {
    if (absl::SimpleAtoi(value, &config.seed)) return absl::OkStatus();
    return BadFault(key, value, "a seed is a whole number from 0");
  }
  return BadFault(
      key, value,
      "unknown key; known are seed, drop, duplicate, reorder, corrupt, ce, delay, dir, link, rule");
}

}  // namespace

absl::StatusOr<FaultConfig> ParseFault(const std::string& text) {
  FaultConfig config;
  std::optional<FaultRuleReader> rule;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    const std::vector<std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (pair.size() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("fault: \"", part, "\" is not KEY=VALUE, for example drop=0.01"));
    }
    absl::Status status;
    if (pair[0] == "rule") {
      if (rule) config.rules.push_back(rule->Take());
      status = rule.emplace().Begin(pair[1]);
    } else {
      status = rule ? rule->Set(pair[0], pair[1]) : SetValue(pair[0], pair[1], config);
    }
    if (!status.ok()) return status;
  }
  if (rule) config.rules.push_back(rule->Take());
  if (config.rules.size() > kMaxFaultRules) {
    return absl::InvalidArgumentError(
        absl::StrCat("fault: ", config.rules.size(), " rules, at most ", kMaxFaultRules));
  }
  return config;
}

}  // namespace uroce::drivers
