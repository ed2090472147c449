// SPDX-License-Identifier: Apache-2.0
#include "nic/control/reconfiguration.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "drivers/fault/fault_port.h"
#include "nic/base/suggestion.h"
#include "nic/objects/nic.h"
#include "nic/settings/config_change.h"
#include "nic/settings/daemon_settings.h"
#include "nic/settings/port_congestion.h"
#include "nic/settings/port_fields.h"

namespace uroce::nic {
namespace {

/// The settings that hold, with those of NICs that commands have changed. NICs that commands have
/// added are not the file's.
Config Holding(const Nic& nic) {
  Config config = nic.config();
  for (DeviceConfig& device : config.devices) {
    for (const auto& its : nic.devices()) {
      if (!its->addition() && its->name() == device.name) device = its->config();
    }
  }
  return config;
}

}  // namespace

absl::Status Reconfiguration::Reload() {
  absl::StatusOr<Config> next = reader_ ? reader_() : nic_.config();
  const absl::Status status = next.ok() ? CheckChange(nic_.config(), *next) : next.status();
  if (!status.ok()) {
    spdlog::error("settings stay as they are: {}", std::string(status.message()));
    return status;
  }
  next->limits = Nic::Bounded(next->limits);
  const std::vector<std::string> keys = ChangedKeys(Holding(nic_), *next);
  for (const auto& device : nic_.devices()) {
    if (device->addition()) continue;
    if (const DeviceConfig* changed = FindNic(*next, device->name())) SetDevice(*device, *changed);
  }
  TakeSettings(*next, keys);
  return absl::OkStatus();
}

absl::Status Reconfiguration::Set(const std::string& text) {
  absl::StatusOr<Setting> words = SplitFields("config", "", text);
  if (!words.ok()) return words.status();
  std::vector<std::string> names;
  for (const SettingInfo& info : SettingInfos()) names.push_back(info.key);
  std::vector<Setting> settings;
  for (auto& [written, value] : words->fields) {
    std::string key = absl::StrReplaceAll(written, {{"-", "_"}});
    if (std::find(names.begin(), names.end(), key) == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("config: there is no setting \"", written, "\"", Suggestion(key, names)));
    }
    settings.push_back({key, key, std::move(value), {}});
  }
  Config next = nic_.config();
  if (absl::Status status = ChangeConfig(settings, next); !status.ok()) return status;
  if (absl::Status status = CheckChange(nic_.config(), next); !status.ok()) return status;
  TakeSettings(next, ChangedKeys(nic_.config(), next));
  return absl::OkStatus();
}

absl::Status Reconfiguration::SetPort(NicDevice& device, const std::string& text) {
  const absl::StatusOr<Setting> words = SplitFields(device.name(), "port", text);
  if (!words.ok()) return words.status();
  DeviceConfig next = device.config();
  for (const auto& [key, value] : words->fields) {
    absl::Status status;
    if (key == kRateKey) {
      status = SetRate(value, next);
    } else if (IsCongestionKey(key)) {
      status = nic::SetCongestion(key, value, next.congestion);
    } else {
      status = absl::InvalidArgumentError(
          absl::StrCat("\"", key,
                       "\" does not change while the daemon runs; rate, cc, cc.PRIORITY and "
                       "cc.PARAMETER do"));
    }
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(device.name(), ": ", status.message()));
    }
  }
  SetDevice(device, next);
  return absl::OkStatus();
}

void Reconfiguration::SetDevice(NicDevice& device, const DeviceConfig& next) {
  const DeviceConfig& now = device.config();
  const bool has_rate = now.rate_bps != next.rate_bps;
  const bool has_congestion = CongestionFields(now.congestion) != CongestionFields(next.congestion);
  const bool has_fault = now.fault != next.fault;
  if (!has_rate && !has_congestion && !has_fault) return;
  const absl::StatusOr<drivers::FaultConfig> faults =
      next.fault.empty() ? drivers::FaultConfig() : drivers::ParseFault(next.fault);
  nic_.workers().RunTogether([&] {
    if (has_rate) device.SetRate(next.rate_bps);
    if (has_congestion) device.SetCongestion(next.congestion);
    if (has_fault && faults.ok()) device.fault_port()->Set(*faults);
  });
  if (has_fault && faults.ok()) device.ShowFault(next.fault);
  refresh_(device);
}

void Reconfiguration::TakeSettings(const Config& next, const std::vector<std::string>& keys) {
  nic_.TakeSettings(next);
  const Limits& limits = nic_.config().limits;
  admission_.SetLimits({.total = limits.sessions, .per_user = limits.sessions_per_user});
  spdlog::set_level(spdlog::level::from_str(next.log_level));
  spdlog::info("settings: {}", keys.empty() ? "none has changed" : absl::StrJoin(keys, ", "));
}

}  // namespace uroce::nic
