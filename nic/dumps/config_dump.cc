// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/config_dump.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nic/net/address.h"
#include "nic/objects/nic.h"
#include "nic/settings/config_change.h"
#include "nic/settings/daemon_settings.h"
#include "nic/settings/nic_settings.h"
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

/// A NIC that is there, and as its setting has it.
struct NicOfSetting {
  const NicDevice* device;
  const DeviceConfig* start;
};

void AddSetting(const Setting& setting, const std::vector<NicOfSetting>& nics, Json& json) {
  Fields fields = WithoutFaults(setting);
  for (const auto& [device, start] : nics) {
    const std::string prefix = setting.key == "port" ? "" : absl::StrCat(device->name(), ".");
    WriteOver(prefix, *start, device->config(), fields);
  }
  json[setting.key].push_back(FieldsJson(fields));
}

/// A NIC that its switch has made, in the form of a port at that switch.
Fields FieldsAtSwitch(const NicDevice& device, const SwitchSettings& its) {
  const DeviceConfig& now = device.config();
  std::vector<std::string> addresses;
  for (const InterfaceAddress& address : now.addresses) {
    addresses.push_back(FormatInterfaceAddress(address));
  }
  Fields fields = {{"name", device.name()},
                   {std::string(kSwitchKey), its.name},
                   {"ip", absl::StrJoin(addresses, "+")}};
  DeviceConfig start;
  start.congestion = its.congestion;
  WriteOver("", start, now, fields);
  if (now.selective_repeat != its.selective_repeat) {
    fields.emplace_back(kSelectiveRepeatKey, now.selective_repeat ? "on" : "off");
  }
  return fields;
}

/// A switch that has lost NICs, `names` with the others: it makes none, and the others are ports,
/// since "ports" would make the lost ones too.
void AddChangedSwitch(const Config& config, const Setting& setting,
                      const std::vector<std::string>& names, const std::vector<NicOfSetting>& nics,
                      Json& json) {
  Fields fields = setting.fields;
  std::erase_if(fields, [&](const auto& field) {
    return field.first == "ports" || std::ranges::any_of(names, [&](const std::string& name) {
             return field.first.starts_with(name + ".");
           });
  });
  fields.emplace_back("ports", "0");
  json[setting.key].push_back(FieldsJson(fields));
  for (const auto& [device, start] : nics) {
    const SwitchSettings& its = config.switches[static_cast<size_t>(start->at_switch)];
    json["port"].push_back(FieldsJson(FieldsAtSwitch(*device, its)));
  }
}

/// Ports that were removed are left out, and wires both of whose ends were.
void AddNics(const Nic& nic, Json& json) {
  const Config& config = nic.config();
  for (const auto& [setting, names] : config.nics) {
    std::vector<NicOfSetting> nics;
    for (const auto& device : nic.devices()) {
      if (device->addition() || std::ranges::count(names, device->name()) == 0) continue;
      nics.push_back({device.get(), FindNic(config, device->name())});
    }
    if (setting.key == "switch" && nics.size() != names.size()) {
      AddChangedSwitch(config, setting, names, nics, json);
    } else if (!nics.empty() || setting.key == "switch") {
      AddSetting(setting, nics, json);
    }
  }
  std::vector<const PortAddition*> seen;
  for (const auto& device : nic.devices()) {
    const PortAddition* const addition = device->addition().get();
    if (addition == nullptr || std::ranges::count(seen, addition) != 0) continue;
    seen.push_back(addition);
    std::vector<NicOfSetting> nics;
    for (const auto& each : nic.devices()) {
      const auto start = std::ranges::find(addition->nics, each->name(), &DeviceConfig::name);
      if (each->addition().get() == addition) nics.push_back({each.get(), &*start});
    }
    AddSetting(addition->setting, nics, json);
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
