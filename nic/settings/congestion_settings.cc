// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/congestion_settings.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "nic/settings/config.h"
#include "nic/settings/setting.h"
#include "pipeline/os/suggestion.h"

namespace uroce::nic {
namespace {

constexpr absl::string_view kParameterPrefix = "cc.";
constexpr absl::string_view kProfileName = "profile";
constexpr congestion::Profile kDefaultOfPorts = congestion::Profile::kDelay;

absl::Status SetProfile(absl::string_view key, const std::string& text,
                        std::optional<congestion::Profile>& to) {
  congestion::Profile profile = kDefaultOfPorts;
  if (congestion::ParseProfile(text, profile)) {
    to = profile;
    return absl::OkStatus();
  }
  std::vector<std::string> names;
  for (int i = 0; i < congestion::kProfiles; ++i) {
    names.emplace_back(congestion::NameOf(static_cast<congestion::Profile>(i)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(key, " \"", text, "\" is none of ", absl::StrJoin(names, ", ")));
}

congestion::Profile ProfileOf(const DeviceConfig& device) {
  return device.congestion.profile.value_or(device.cable() == nullptr ? kDefaultOfPorts
                                                                      : congestion::Profile::kOff);
}

congestion::Settings WithParameters(congestion::Profile profile, const CongestionConfig& config) {
  congestion::Settings settings = congestion::DefaultsOf(profile);
  for (const auto& [parameter, value] : config.parameters) parameter->of(settings) = value;
  return settings;
}

absl::Status NoParameter(const std::string& name) {
  std::vector<std::string> names;
  for (const congestion::Parameter& known : congestion::Parameters()) {
    names.emplace_back(known.name);
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no parameter \"", kParameterPrefix, name,
                                                 "\"", Suggestion(name, names)));
}

/// The key as it is beside those of a port: "cc" of "profile", "cc.ai" of "ai".
std::string FullKey(absl::string_view key) {
  if (IsCongestionKey(key)) return std::string(key);
  return key == kProfileName ? std::string(kCongestionKey) : absl::StrCat(kParameterPrefix, key);
}

}  // namespace

bool IsCongestionKey(absl::string_view key) {
  return key == kCongestionKey || absl::StartsWith(key, kParameterPrefix);
}

absl::Status SetCongestion(absl::string_view key, const std::string& text,
                           CongestionConfig& config) {
  if (key == kCongestionKey) return SetProfile(key, text, config.profile);
  const std::string name(absl::StripPrefix(key, kParameterPrefix));
  uint32_t priority = 0;
  if (absl::SimpleAtoi(name, &priority)) {
    if (priority < congestion::kPriorities && name.size() == 1) {
      return SetProfile(key, text, config.of_priority[priority]);
    }
    return absl::InvalidArgumentError(absl::StrCat(key, ": priorities are 0 to 7"));
  }
  const congestion::Parameter* const parameter = congestion::FindParameter(name);
  if (parameter == nullptr) return NoParameter(name);
  uint32_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < parameter->least || value > parameter->most) {
    return absl::InvalidArgumentError(absl::StrCat(key, " \"", text, "\" is not a number from ",
                                                   parameter->least, " to ", parameter->most));
  }
  std::erase_if(config.parameters, [&](const auto& known) { return known.first == parameter; });
  config.parameters.emplace_back(parameter, value);
  return absl::OkStatus();
}

absl::Status ChangeCongestion(const std::string& text, CongestionConfig& config) {
  absl::StatusOr<Setting> words = SplitFields(std::string(kCongestionKey), "", text);
  if (!words.ok()) return words.status();
  if (words->fields.empty()) return Complain(*words, "nothing is given, such as profile=delay");
  for (auto& [key, value] : words->fields) key = FullKey(key);
  if (absl::Status status = CheckKeysDiffer(*words); !status.ok()) return status;
  CongestionConfig changed = config;
  for (const auto& [key, value] : words->fields) {
    if (absl::Status status = SetCongestion(key, value, changed); !status.ok()) return status;
  }
  config = std::move(changed);
  return absl::OkStatus();
}

std::vector<std::pair<std::string, std::string>> CongestionFields(const CongestionConfig& config) {
  std::vector<std::pair<std::string, std::string>> fields;
  if (config.profile) fields.emplace_back(kCongestionKey, congestion::NameOf(*config.profile));
  for (size_t priority = 0; priority < config.of_priority.size(); ++priority) {
    const std::optional<congestion::Profile>& own = config.of_priority[priority];
    if (own) {
      fields.emplace_back(absl::StrCat(kParameterPrefix, priority), congestion::NameOf(*own));
    }
  }
  for (const congestion::Parameter& parameter : congestion::Parameters()) {
    for (const auto& [its, value] : config.parameters) {
      if (its != &parameter) continue;
      fields.emplace_back(std::string(kParameterPrefix) + std::string(parameter.name),
                          absl::StrCat(value));
    }
  }
  return fields;
}

congestion::Settings CongestionOf(const DeviceConfig& device) {
  return WithParameters(ProfileOf(device), device.congestion);
}

std::array<congestion::Settings, congestion::kPriorities> CongestionOfPriorities(
    const DeviceConfig& device) {
  std::array<congestion::Settings, congestion::kPriorities> settings;
  for (size_t priority = 0; priority < settings.size(); ++priority) {
    const std::optional<congestion::Profile>& own = device.congestion.of_priority[priority];
    settings[priority] = WithParameters(own.value_or(ProfileOf(device)), device.congestion);
  }
  return settings;
}

bool IsEcnCapable(const DeviceConfig& device, uint8_t traffic_class) {
  const uint32_t priority = congestion::PriorityOf(traffic_class);
  const congestion::Settings settings = CongestionOfPriorities(device)[priority];
  return congestion::Environment{.settings = settings, .priority = priority}.reacts();
}

}  // namespace uroce::nic
