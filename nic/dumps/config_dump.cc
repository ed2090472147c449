// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/config_dump.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nic/objects/nic.h"
#include "nic/settings/config_change.h"
#include "nic/settings/daemon_settings.h"
#include "nic/settings/port_congestion.h"
#include "nic/settings/port_fields.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;
using Fields = std::vector<std::pair<std::string, std::string>>;

Json ValueJson(const std::string& text) {
  int64_t number = 0;
  if (text == "true" || text == "false") return text == "true";
  if (absl::SimpleAtoi(text, &number) && absl::StrCat(number) == text) return number;
  return text;
}

/// Writes a NIC's rate and congestion control, which commands have changed, over `fields`.
void WriteOver(const std::string& prefix, const DeviceConfig& start, const DeviceConfig& now,
               Fields& fields) {
  const auto erase = [&](auto is_its) {
    std::erase_if(fields, [&](const auto& field) {
      return field.first.starts_with(prefix) && is_its(field.first.substr(prefix.size()));
    });
  };
  if (start.rate_bps != now.rate_bps) {
    erase([](const std::string& key) { return key == kRateKey; });
    fields.emplace_back(prefix + std::string(kRateKey),
                        now.rate_bps == 0 ? "off" : absl::StrCat(now.rate_bps));
  }
  const Fields congestion = CongestionFields(now.congestion);
  if (CongestionFields(start.congestion) == congestion) return;
  erase([](const std::string& key) { return IsCongestionKey(key); });
  for (const auto& [key, value] : congestion) fields.emplace_back(prefix + key, value);
}

Json FieldsJson(const Fields& fields) {
  Json json = Json::object();
  for (const auto& [key, value] : fields) json[key] = ValueJson(value);
  return json;
}

Fields WithoutFaults(const Setting& setting) {
  Fields fields = setting.fields;
  std::erase_if(fields, [](const auto& field) { return field.first == "fault"; });
  return fields;
}

void AddNics(const Nic& nic, Json& json) {
  const Config& config = nic.config();
  for (const auto& [setting, names] : config.nics) {
    Fields fields = WithoutFaults(setting);
    bool is_there = setting.key != "port";  // Others stay as long as the daemon.
    for (const auto& device : nic.devices()) {
      const DeviceConfig* const start = FindNic(config, device->name());
      if (device->addition() || start == nullptr) continue;
      if (std::ranges::count(names, device->name()) == 0) continue;
      const std::string prefix = setting.key == "port" ? "" : absl::StrCat(device->name(), ".");
      WriteOver(prefix, *start, device->config(), fields);
      is_there = true;
    }
    if (is_there) json[setting.key].push_back(FieldsJson(fields));
  }
  for (const auto& device : nic.devices()) {
    if (!device->addition()) continue;
    Fields fields = WithoutFaults(device->addition()->setting);
    WriteOver("", device->addition()->config, device->config(), fields);
    json["port"].push_back(FieldsJson(fields));
  }
}

}  // namespace

Json ConfigJson(const Nic& nic) {
  Json json = Json::object();
  Json limits = Json::object();
  for (const SettingInfo& info : SettingInfos()) {
    const std::string value = ValueOf(info.key, nic.config());
    if (value.empty() || info.key == "ready_fd") continue;
    (info.is_limit ? limits : json)[info.key] = ValueJson(value);
  }
  for (const auto& device : nic.devices()) {
    const std::string& fault = device->config().fault;
    if (!fault.empty()) json["fault"].push_back(absl::StrCat(device->name(), ":", fault));
  }
  json["limits"] = limits;
  AddNics(nic, json);
  return json;
}

}  // namespace uroce::nic
