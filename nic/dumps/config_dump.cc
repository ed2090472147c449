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
#include "drivers/switch/switch_port.h"
#include "nic/devices/nic_device.h"
#include "nic/net/address.h"
#include "nic/objects/nic.h"
#include "nic/settings/config.h"
#include "nic/settings/congestion_settings.h"
#include "nic/settings/daemon_settings.h"
#include "nic/settings/limit_profiles.h"
#include "nic/settings/nic_settings.h"
#include "nic/settings/port_settings.h"
#include "pipeline/datapath/worker/worker.h"

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
    const SwitchSettings& its = config.switches[start->at_switch()->switch_index];
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
  Json limits = {{kProfileKey, nic.config().limit_profile}};
  for (const SettingInfo& info : SettingInfos()) {
    const std::string value = ValueOf(info.key, nic.config());
    if (value.empty() || info.key == "ready_fd") continue;
    (info.is_limit() ? limits : json)[info.key] = ValueJson(value);
  }
  for (const auto& device : nic.devices()) {
    const std::string& fault = device->config().fault.text;
    if (!fault.empty()) json["fault"].push_back(absl::StrCat(device->name(), ":", fault));
  }
  json["limits"] = limits;
  AddNics(nic, json);
  return json;
}

namespace {

using fabric::Fabric;

std::string EcnText(const fabric::EcnConfig& ecn) {
  if (!ecn.on) return "off";
  return absl::StrCat(ecn.min_bytes, ":", ecn.max_bytes, ":", ecn.max_probability * 100, "%");
}

std::string PfcText(const fabric::PfcConfig& pfc) {
  return pfc.on ? absl::StrCat(pfc.xoff_bytes, ":", pfc.xon_bytes) : "off";
}

Json SwitchJson(const Nic& nic, const Fabric& fabric, uint32_t index) {
  const fabric::Switch& its = fabric.switch_at(index);
  return {{"name", nic.config().switches[index].name},
          {"ports", its.egress.size()},
          {"buffer_bytes", its.config.buffer_bytes},
          {"buffered_bytes", its.buffered_bytes},
          {"peak_buffered_bytes", its.peak_buffered_bytes},
          {"ecn", EcnText(its.config.ecn)},
          {"pfc", PfcText(its.config.pfc)},
          {"no_path_drops", its.lost_ways}};
}

/// The name of the NIC at that place; "" if there is none.
std::string HostName(const Nic& nic, uint32_t host) {
  const drivers::SwitchNetwork& network = *nic.network();
  const NicDevice* const device =
      network.has_nic(host) ? nic.DeviceAt(network.nic(host).device) : nullptr;
  return device == nullptr ? "" : device->name();
}

uint64_t PausedMicros(const fabric::Link& link, Nanos now) {
  const Nanos paused = link.counters.paused + (link.is_paused ? now - link.paused_at : Nanos(0));
  return static_cast<uint64_t>(paused.count() / 1'000);
}

/// What is sent by the port, and how often traffic received by it was paused.
Json PortJson(const Fabric& fabric, uint32_t egress, Nanos now) {
  const fabric::Link& out = fabric.link(egress);
  const fabric::Link& in = fabric.link(egress ^ 1);
  Json json;
  json["link"] = out.is_up ? "up" : "down";
  json["rate_bps"] = out.config.rate_bps;
  json["delay_ns"] = out.config.delay.count();
  json["queue_bytes"] = out.queue_bytes();
  json["peak_queue_bytes"] = out.peak_queue_bytes;
  json["xmit_packets"] = out.counters.frames;
  json["xmit_bytes"] = out.counters.bytes;
  json["rcv_packets"] = in.counters.frames;
  json["rcv_bytes"] = in.counters.bytes;
  json["ecn_marks"] = out.counters.marks;
  json["early_drops"] = out.counters.early_drops;
  json["tail_drops"] = out.counters.tail_drops;
  json["down_drops"] = out.counters.down_drops + in.counters.down_drops;
  json["pauses_sent"] = in.counters.pauses;
  json["pauses_received"] = out.counters.pauses;
  json["sender_paused_us"] = PausedMicros(in, now);
  return json;
}

Json PortsJson(const Nic& nic, const Fabric& fabric, Nanos now) {
  const std::vector<SwitchSettings>& switches = nic.config().switches;
  Json list = Json::array();
  for (uint32_t index = 0; index < fabric.switches(); ++index) {
    uint32_t number = 0;
    for (const uint32_t egress : fabric.switch_at(index).egress) {
      const fabric::Link& link = fabric.link(egress);
      const bool is_nics = link.to_switch == fabric::Link::kHost;
      Json port = {
          {"name", absl::StrCat(switches[index].name, ":", number++)},
          {"leads_to", is_nics ? HostName(nic, link.host) : switches[link.to_switch].name}};
      port.update(PortJson(fabric, egress, now));
      list.push_back(std::move(port));
    }
  }
  return list;
}

}  // namespace

Json SwitchesJson(Nic& nic) {
  Json switches = Json::array(), ports = Json::array();
  if (nic.network() == nullptr) return {{"switches", switches}, {"ports", ports}};
  nic.workers().RunTogether([&] {
    const Fabric& fabric = nic.network()->fabric();
    for (uint32_t index = 0; index < fabric.switches(); ++index) {
      switches.push_back(SwitchJson(nic, fabric, index));
    }
    ports = PortsJson(nic, fabric, nic.network()->now());
  });
  return {{"switches", switches}, {"ports", ports}};
}

Json SwitchPortsJson(Nic& nic) { return SwitchesJson(nic)["ports"]; }

}  // namespace uroce::nic
