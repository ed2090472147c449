// SPDX-License-Identifier: Apache-2.0
// Changes of the configuration while the daemon runs: settings that are read again, ports that come
// and go, and commands that change the network.
#include "nic/control/reconfiguration.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "drivers/fault/fault_port.h"
#include "drivers/switch/switch_port.h"
#include "nic/base/log.h"
#include "nic/control/control_context.h"
#include "nic/control/monitor.h"
#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "nic/settings/config.h"
#include "nic/settings/congestion_settings.h"
#include "nic/settings/daemon_settings.h"
#include "nic/settings/limit_profiles.h"
#include "nic/settings/port_settings.h"
#include "pipeline/datapath/worker/worker.h"
#include "pipeline/os/suggestion.h"

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
    LogError("settings stay as they are: {}", std::string(status.message()));
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
    if (key == kLimitsKey) {
      return absl::FailedPreconditionError(
          "limits: a profile is read only when the daemon starts; nothing was changed");
    }
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
  DeviceConfig next = device.config();
  if (absl::Status status = ChangePort(text, next); !status.ok()) return status;
  SetDevice(device, next);
  return absl::OkStatus();
}

void Reconfiguration::SetDevice(NicDevice& device, const DeviceConfig& next) {
  const DeviceConfig& now = device.config();
  const bool has_rate = now.rate_bps != next.rate_bps;
  const bool has_congestion = CongestionFields(now.congestion) != CongestionFields(next.congestion);
  const bool has_fault = now.fault.text != next.fault.text;
  if (!has_rate && !has_congestion && !has_fault) return;
  nic_.workers().RunTogether([&] {
    if (has_rate) device.SetRate(next.rate_bps);
    if (has_congestion) device.SetCongestion(next.congestion);
    if (has_fault) device.SetFaults(next.fault);
  });
  refresh_(device);
}

void Reconfiguration::TakeSettings(const Config& next, const std::vector<std::string>& keys) {
  nic_.TakeSettings(next);
  const Limits& limits = nic_.config().limits;
  admission_.SetLimits({.total = limits.sessions, .per_user = limits.sessions_per_user});
  SetLogLevel(next.log_level);
  LogInfo("settings: {}", keys.empty() ? "none has changed" : absl::StrJoin(keys, ", "));
}

namespace {

/// The settings that hold, with the NICs that are there.
Config Present(const Nic& nic) {
  Config config = nic.config();
  config.devices.clear();
  for (const auto& device : nic.devices()) config.devices.push_back(device->config());
  return config;
}

/// The place of a NIC at a switch.
std::optional<uint32_t> PlaceOf(const Nic& nic, const NicDevice& device) {
  return device.at_switch() ? nic.network()->HostOf(device.index()) : std::nullopt;
}

absl::Status NoPlace(const std::string& name, const Nic& nic) {
  const size_t held = nic.held_devices();
  return absl::ResourceExhaustedError(
      absl::StrCat("port add: name=", name, ": ", nic.devices().size() + held, " of ",
                   UROCE_MAX_DEVICES, " places of NICs are taken, ", held,
                   " of them by removed NICs that programs still have open"));
}

}  // namespace

absl::Status PortChanges::Add(const std::string& key, const std::string& text) {
  if (!opener_) return absl::UnimplementedError("port add: this daemon opens no ports");
  nic_.ReleaseDevices();  // One of them may have the last place.
  absl::StatusOr<PortAddition> parsed = ParsePortAddition(key, text, Present(nic_));
  if (!parsed.ok()) return parsed.status();
  const auto addition = std::make_shared<const PortAddition>(*std::move(parsed));
  const std::vector<uint32_t> indices = nic_.NextDeviceIndices(addition->nics.size());
  if (indices.size() < addition->nics.size()) return NoPlace(addition->nics.front().name, nic_);
  auto opened = opener_(addition->nics, indices);
  if (!opened.ok()) return opened.status();
  for (std::unique_ptr<NicDevice>& device : *opened) {
    device->SetAddition(addition);
    Serve(std::move(device));
  }
  return absl::OkStatus();
}

/// Gives a port at a switch its link.
void PortChanges::Plug(NicDevice& device) {
  const std::optional<uint32_t> host = PlaceOf(nic_, device);
  if (!host) return;
  nic_.workers().RunTogether([&] { nic_.network()->Plug(*host); });
  static_cast<void>(device.Refresh());
}

void PortChanges::Serve(std::unique_ptr<NicDevice> opened) {
  Plug(*opened);
  NicDevice& device = nic_.AddDevice(std::move(opened));
  services_.rdma_cm.AddDevice(device);
  services_.peers.AddDevice(device);
  services_.paths.AddDevice(device);
  hooks_.added(device);
  monitor_.OnPort(device, /*is_there=*/true);
  LogInfo("{}: added", device.name());
}

absl::Status PortChanges::Remove(NicDevice& device) {
  if (absl::Status status = CheckRemovable(device.config()); !status.ok()) return status;
  const std::shared_ptr<NicDevice> held = device.shared_from_this();
  const std::optional<uint32_t> place = PlaceOf(nic_, device);
  hooks_.removed(device);
  nic_.RemoveDevice(device);
  if (place) nic_.workers().RunTogether([&] { nic_.network()->Unplug(*place); });
  services_.rdma_cm.RemoveDevice(device);
  services_.peers.RemoveDevice(device);
  services_.paths.RemoveDevice(device);
  monitor_.OnPort(device, /*is_there=*/false);
  LogInfo("{}: removed", device.name());
  return absl::OkStatus();
}

namespace {

constexpr absl::string_view kNoFault = "off";

template <size_t kBytes>
std::string TextOf(const char (&field)[kBytes]) {
  return {field, strnlen(field, kBytes)};
}

NicDevice* FindDevice(const Nic& nic, const std::string& name) {
  const auto found = std::ranges::find_if(
      nic.devices(), [&](const auto& device) { return device->name() == name; });
  return found == nic.devices().end() ? nullptr : found->get();
}

std::optional<uint32_t> FindSwitch(const Nic& nic, const std::string& name) {
  const std::vector<SwitchSettings>& switches = nic.config().switches;
  const auto found = std::ranges::find(switches, name, &SwitchSettings::name);
  if (found == switches.end()) return std::nullopt;
  return static_cast<uint32_t>(found - switches.begin());
}

/// The cable of a NIC at a switch.
std::optional<uint32_t> CableOf(const Nic& nic, const NicDevice& device) {
  const std::optional<uint32_t> host = nic.network()->HostOf(device.index());
  if (!host) return std::nullopt;
  return nic.network()->fabric().CableOf(*host);
}

bool HasNoNic(const drivers::SwitchNetwork& network, uint32_t cable) {
  const fabric::Link& link = network.fabric().link(2 * cable);
  return link.from_switch == fabric::Link::kHost && !network.has_nic(link.host);
}

absl::Status NoNic(const std::string& name, const Nic& nic) {
  std::vector<std::string> names;
  for (const auto& each : nic.devices()) names.push_back(each->name());
  return absl::NotFoundError(
      absl::StrCat("there is no NIC \"", name, "\"", Suggestion(name, names),
                   names.empty() ? "" : "; there are: " + absl::StrJoin(names, ", ")));
}

absl::Status NoSuch(const std::string& target, const Nic& nic) {
  std::vector<std::string> names;
  for (const SwitchSettings& each : nic.config().switches) names.push_back(each.name);
  for (const auto& device : nic.devices()) {
    if (device->at_switch()) names.push_back(device->name());
  }
  return absl::NotFoundError(absl::StrCat("there is no switch, port or NIC at one \"", target, "\"",
                                          Suggestion(target, names)));
}

/// `target` is "sw0:3", or the name of a NIC at a switch.
std::optional<uint32_t> FindCable(const Nic& nic, const std::string& target) {
  const NicDevice* device = FindDevice(nic, target);
  if (device != nullptr && device->at_switch()) return CableOf(nic, *device);
  const std::pair<std::string, std::string> parts = absl::StrSplit(target, absl::MaxSplits(':', 1));
  const std::optional<uint32_t> index = FindSwitch(nic, parts.first);
  uint32_t port = 0;
  if (!index || !absl::SimpleAtoi(parts.second, &port)) return std::nullopt;
  const std::vector<uint32_t>& egress = nic.network()->fabric().switch_at(*index).egress;
  if (port >= egress.size()) return std::nullopt;
  return egress[port] / 2;
}

fabric::LinkConfig Changed(fabric::LinkConfig config, const SwitchChange& change) {
  if (change.rate_bps) config.host_queue_bytes = HostQueueBytes(*change.rate_bps);
  config.rate_bps = change.rate_bps.value_or(config.rate_bps);
  config.delay = change.delay.value_or(config.delay);
  return config;
}

}  // namespace

absl::Status NetworkChanges::Change(const uroce_change& request) {
  if (!client_.is_privileged()) {
    return absl::PermissionDeniedError(
        "the daemon serves all programs: only root and the daemon's user may change it");
  }
  const std::string target = TextOf(request.target), text = TextOf(request.text);
  if (request.what == UROCE_CHANGE_FAULT) return SetFault(target, text);
  if (request.what == UROCE_CHANGE_CC) return SetCongestion(target, text);
  if (request.what == UROCE_CHANGE_SWITCH) return SetSwitch(target, text);
  if (request.what == UROCE_CHANGE_RELOAD) return context_.reconfiguration.Reload();
  if (request.what == UROCE_CHANGE_CONFIG) return context_.reconfiguration.Set(text);
  if (request.what == UROCE_CHANGE_PORT) return SetPort(target, text);
  if (request.what == UROCE_CHANGE_ADD_PORT) return context_.port_changes.Add("port", text);
  if (request.what == UROCE_CHANGE_ADD_WIRE) return context_.port_changes.Add("wire", text);
  if (request.what == UROCE_CHANGE_REMOVE_PORT) return RemovePort(target);
  return absl::InvalidArgumentError(absl::StrCat("there is no change ", request.what));
}

absl::Status NetworkChanges::SetCongestion(const std::string& nic_name, const std::string& text) {
  NicDevice* const device = FindDevice(context_.nic, nic_name);
  if (device == nullptr) return NoNic(nic_name, context_.nic);
  CongestionConfig config = device->config().congestion;
  absl::Status status = ChangeCongestion(text, config);
  if (!status.ok()) return status;
  context_.nic.workers().RunTogether([&] { device->SetCongestion(config); });
  context_.refresh(*device);
  return absl::OkStatus();
}

absl::Status NetworkChanges::SetPort(const std::string& nic_name, const std::string& text) {
  NicDevice* const device = FindDevice(context_.nic, nic_name);
  if (device == nullptr) return NoNic(nic_name, context_.nic);
  return context_.reconfiguration.SetPort(*device, text);
}

absl::Status NetworkChanges::RemovePort(const std::string& nic_name) {
  NicDevice* const device = FindDevice(context_.nic, nic_name);
  if (device == nullptr) return NoNic(nic_name, context_.nic);
  return context_.port_changes.Remove(*device);
}

absl::Status NetworkChanges::SetFault(const std::string& nic_name, const std::string& text) {
  if (nic_name.empty() && text == kNoFault) {
    for (const auto& device : context_.nic.devices()) SetFaultOf(*device, {});
    return absl::OkStatus();
  }
  NicDevice* const device = FindDevice(context_.nic, nic_name);
  if (device == nullptr) return NoNic(nic_name, context_.nic);
  DeviceConfig next = device->config();
  if (absl::Status status = nic::SetFault(text, next); !status.ok()) return status;
  SetFaultOf(*device, next.fault);
  return absl::OkStatus();
}

void NetworkChanges::SetFaultOf(NicDevice& device, const drivers::FaultConfig& faults) {
  context_.nic.workers().RunTogether([&] { device.SetFaults(faults); });
  context_.refresh(device);  // It may have a link or none now.
}

absl::Status NetworkChanges::SetSwitch(const std::string& target, const std::string& text) {
  const Nic& nic = context_.nic;
  if (nic.network() == nullptr) {
    return absl::NotFoundError("the daemon has no switch; see uroced --help, --switch");
  }
  const absl::StatusOr<SwitchChange> change = ParseSwitchChange(text);
  if (!change.ok()) return change.status();
  if (const auto index = FindSwitch(nic, target)) return ChangeSwitch(*index, *change);
  if (const auto cable = FindCable(nic, target)) return ChangeCable(*cable, *change);
  return NoSuch(target, nic);
}

/// Rate and delay apply to the links of the switch's NICs.
absl::Status NetworkChanges::ChangeSwitch(uint32_t index, const SwitchChange& change) {
  drivers::SwitchNetwork& network = *context_.nic.network();
  const fabric::Switch& its = network.fabric().switch_at(index);
  const SwitchSettings& settings = context_.nic.config().switches[index];
  if (change.is_up) {
    return absl::InvalidArgumentError(
        absl::StrCat("link: name a port, such as ", settings.name, ":0"));
  }
  fabric::SwitchConfig config = its.config;
  config.buffer_bytes = change.buffer_bytes.value_or(config.buffer_bytes);
  config.ecn = change.ecn.value_or(config.ecn);
  if (change.pfc) {
    const auto pfc =
        PfcOf(*change.pfc, config.buffer_bytes, static_cast<uint32_t>(its.egress.size()),
              Changed(settings.link, change), settings.mtu_bytes);
    if (!pfc.ok()) return pfc.status();
    config.pfc = *pfc;
  }
  context_.nic.workers().RunTogether([&] {
    network.SetSwitch(index, config);
    for (const uint32_t egress : its.egress) {
      const fabric::Link& link = network.fabric().link(egress);
      if (link.to_switch != fabric::Link::kHost) continue;
      network.SetLink(egress / 2, Changed(link.config, change));
    }
  });
  return absl::OkStatus();
}

absl::Status NetworkChanges::ChangeCable(uint32_t cable, const SwitchChange& change) {
  if (change.buffer_bytes || change.ecn || change.pfc) {
    return absl::InvalidArgumentError(
        "buffer, ecn and pfc are a switch's; of a port there are rate, delay and link");
  }
  drivers::SwitchNetwork& network = *context_.nic.network();
  if (change.is_up && HasNoNic(network, cable)) {
    return absl::FailedPreconditionError(
        "link: there is no NIC at the port; uroce port add puts one there");
  }
  context_.nic.workers().RunTogether([&] {
    network.SetLink(cable, Changed(network.fabric().link(2 * cable).config, change));
    if (change.is_up) network.SetUp(cable, *change.is_up);
  });
  return absl::OkStatus();
}

}  // namespace uroce::nic
