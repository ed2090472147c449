// SPDX-License-Identifier: Apache-2.0
// The configuration of the daemon: every setting and every limit, checked once, and which of them
// may change while the daemon runs. Pure.
#include "nic/settings/config.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nic/settings/congestion_settings.h"
#include "nic/settings/daemon_settings.h"
#include "nic/settings/limit_profiles.h"
#include "nic/settings/nic_settings.h"

namespace uroce::nic {
namespace {

absl::Status Apply(const Setting& setting, Config& config) {
  return IsOfNics(setting.key) ? ApplyNics(setting, config) : ApplyDaemonSetting(setting, config);
}

/// Returns whether any NIC has such an interface.
bool MarkWireInterfaces(Config& config) {
  bool has_any = false;
  for (DeviceConfig& device : config.devices) {
    device.wire_interface = config.wire_interfaces && device.is_inside();
    has_any |= device.wire_interface;
  }
  return has_any;
}

absl::Status ApplyWireInterfaces(Config& config) {
  if (MarkWireInterfaces(config) || !config.wire_interfaces) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "wire_interfaces: there is no NIC inside; give some by --wire or --switch");
}

absl::Status CheckAddressesDiffer(const Config& config) {
  std::vector<std::pair<Gid, std::string>> seen;
  for (const DeviceConfig& device : config.devices) {
    for (const InterfaceAddress& address : device.addresses) {
      for (const auto& [gid, owner] : seen) {
        if (gid != address.gid) continue;
        return absl::InvalidArgumentError(absl::StrCat("ip: ", FormatAddress(gid), " belongs to ",
                                                       owner, " and to ", device.name,
                                                       "; give each device its own"));
      }
      seen.emplace_back(address.gid, device.name);
    }
  }
  return absl::OkStatus();
}

std::string Counted(uint32_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace

std::string WorkersChosen(const Config& config) {
  if (!config.has_auto_workers) return "";
  return absl::StrCat(Counted(config.workers, "worker"), ": auto, ",
                      Counted(config.usable_cpus, "usable CPU"), ", ",
                      config.usable_memory_bytes >> 20, " MiB of usable memory");
}

// The profile of limits is applied first: single limits win over it, wherever they are written.
// Ports at switches are applied behind all other NICs, since a later flag may make their switch.
// Faults are applied last: they may name devices that a later flag adds.
absl::StatusOr<Config> MakeConfig(const std::vector<Setting>& settings,
                                  const std::string& default_socket) {
  Config config;
  config.socket_path = default_socket;
  std::vector<const Setting*> at_switches;
  std::vector<const Setting*> faults;
  for (const Setting& setting : settings) {
    if (setting.key != kLimitsKey) continue;
    if (absl::Status status = ApplyLimitProfile(setting, config); !status.ok()) return status;
  }
  for (const Setting& setting : settings) {
    if (setting.key == kLimitsKey) continue;
    if (setting.key == "fault") {
      faults.push_back(&setting);
    } else if (SwitchOf(setting) != nullptr) {
      at_switches.push_back(&setting);
    } else if (absl::Status status = Apply(setting, config); !status.ok()) {
      return status;
    }
  }
  for (const Setting* port : at_switches) {
    if (absl::Status status = ApplyNics(*port, config); !status.ok()) return status;
  }
  if (config.devices.empty() && config.switches.empty()) {
    const absl::StatusOr<Setting> wire = SplitFields("--wire", "wire", kDefaultWire);
    if (!wire.ok()) return wire.status();
    if (absl::Status status = ApplyNics(*wire, config); !status.ok()) return status;
  }
  for (const Setting* fault : faults) {
    if (absl::Status status = ApplyFault(*fault, config); !status.ok()) return status;
  }
  if (absl::Status status = ApplyWireInterfaces(config); !status.ok()) return status;
  if (absl::Status status = FinishSwitches(config.switches); !status.ok()) return status;
  if (absl::Status status = CheckAddressesDiffer(config); !status.ok()) return status;
  return config;
}

absl::Status AddNics(const Setting& setting, Config& config) {
  Config next = config;
  if (absl::Status status = ApplyNics(setting, next); !status.ok()) return status;
  MarkWireInterfaces(next);
  if (absl::Status status = CheckAddressesDiffer(next); !status.ok()) return status;
  config = std::move(next);
  return absl::OkStatus();
}

absl::Status ChangeConfig(const std::vector<Setting>& settings, Config& config) {
  Config changed = config;
  for (const Setting& setting : settings) {
    if (IsOfNics(setting.key)) return Complain(setting, "is no setting of the daemon as a whole");
    if (absl::Status status = ApplyDaemonSetting(setting, changed); !status.ok()) return status;
  }
  config = std::move(changed);
  return absl::OkStatus();
}

namespace {

/// Limits by which tables and pools are made at the start.
constexpr absl::string_view kSizesOfTables[] = {
    "max_total_mr",    "max_total_connections",       "max_cm_id",
    "max_cm_join",     "max_cm_id_per_user",          "max_cm_join_per_user",
    "max_kept_frames", "max_kept_frames_per_program", "max_kept_frames_per_qp",
};

bool MayChange(const SettingInfo& info) {
  if (!info.is_limit()) return info.key == "log_level";
  return std::ranges::find(kSizesOfTables, info.key) == std::end(kSizesOfTables);
}

std::string NameOf(const SettingInfo& info) {
  return info.is_limit() ? absl::StrCat("limits.", info.key) : info.key;
}

absl::Status Fixed(absl::string_view key, absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat(key, ": ", what, " only when the daemon starts; nothing was changed"));
}

/// A field of a NIC that stays as it was at the start.
struct FixedField {
  absl::string_view key;
  bool (*is_same)(const DeviceConfig& now, const DeviceConfig& next);
};
constexpr FixedField kFixedFields[] = {
    {"iface, udp or dev",
     [](const DeviceConfig& now, const DeviceConfig& next) {
       return (now.is_inside() && next.is_inside()) || now.kind == next.kind;
     }},
    {"ip", [](const DeviceConfig& now,
              const DeviceConfig& next) { return now.addresses == next.addresses; }},
    {"gateway or route",
     [](const DeviceConfig& now, const DeviceConfig& next) { return now.routes == next.routes; }},
    {"exception", [](const DeviceConfig& now,
                     const DeviceConfig& next) { return now.exception == next.exception; }},
    {"host", [](const DeviceConfig& now,
                const DeviceConfig& next) { return now.own_host == next.own_host; }},
    {"mtu", [](const DeviceConfig& now,
               const DeviceConfig& next) { return now.mtu_bytes == next.mtu_bytes; }},
    {"queues",
     [](const DeviceConfig& now, const DeviceConfig& next) { return now.queues == next.queues; }},
    {"selective-repeat",
     [](const DeviceConfig& now, const DeviceConfig& next) {
       return now.selective_repeat == next.selective_repeat;
     }},
    {"icrc", [](const DeviceConfig& now,
                const DeviceConfig& next) { return now.always_icrc == next.always_icrc; }},
    {"flow-control",
     [](const DeviceConfig& now, const DeviceConfig& next) {
       return now.flow_control == next.flow_control;
     }},
};

/// What a NIC without a device is attached to: the other end of its wire, or its switch.
std::string AttachedTo(const Config& config, const DeviceConfig& device) {
  if (const SwitchPort* const at = device.at_switch())
    return config.switches[at->switch_index].name;
  for (const DeviceConfig& other : config.devices) {
    if (device.cable() && other.kind == device.kind && other.name != device.name) return other.name;
  }
  return "";
}

absl::Status CheckNics(const Config& now, const Config& next) {
  for (const DeviceConfig& device : next.devices) {
    if (FindNic(now, device.name) == nullptr) return Fixed(device.name, "a NIC is added");
  }
  for (const DeviceConfig& device : now.devices) {
    const DeviceConfig* const changed = FindNic(next, device.name);
    if (changed == nullptr) return Fixed(device.name, "a NIC is removed");
    if (AttachedTo(now, device) != AttachedTo(next, *changed)) {
      return Fixed(device.name, "a wire or switch changes");
    }
    for (const FixedField& field : kFixedFields) {
      if (field.is_same(device, *changed)) continue;
      return Fixed(absl::StrCat(device.name, ".", field.key), "is read");
    }
  }
  return absl::OkStatus();
}

using Fields = std::vector<std::pair<std::string, std::string>>;

/// Of each switch, its name and the fields that are not its NICs'.
std::vector<std::pair<std::string, Fields>> SwitchesOf(const Config& config) {
  std::vector<std::pair<std::string, Fields>> switches;
  for (const auto& [setting, names] : config.nics) {
    if (setting.key != "switch") continue;
    Fields fields = setting.fields;
    std::erase_if(fields, [](const auto& field) {
      return IsCongestionKey(field.first) || absl::StrContains(field.first, '.');
    });
    std::ranges::sort(fields);
    const DeviceConfig* const first = names.empty() ? nullptr : FindNic(config, names.front());
    switches.emplace_back(
        first == nullptr ? "" : config.switches[first->at_switch()->switch_index].name,
        std::move(fields));
  }
  std::ranges::sort(switches);
  return switches;
}

absl::Status CheckSwitches(const Config& now, const Config& next) {
  const auto before = SwitchesOf(now), after = SwitchesOf(next);
  if (before == after) return absl::OkStatus();
  const auto [first, second] = std::ranges::mismatch(before, after);
  const std::string& name = first == before.end() ? second->first : first->first;
  return Fixed(name.empty() ? "switch" : name,
               "a switch of the file is read (see uroce switch set)");
}

}  // namespace

const DeviceConfig* FindNic(const Config& config, const std::string& name) {
  const auto found = std::ranges::find(config.devices, name, &DeviceConfig::name);
  return found == config.devices.end() ? nullptr : &*found;
}

absl::Status CheckChange(const Config& now, const Config& next) {
  if (now.limit_profile != next.limit_profile) return Fixed("limits.profile", "is read");
  for (const SettingInfo& info : SettingInfos()) {
    if (MayChange(info) || ValueOf(info.key, now) == ValueOf(info.key, next)) continue;
    return Fixed(NameOf(info), "is read");
  }
  if (absl::Status status = CheckSwitches(now, next); !status.ok()) return status;
  return CheckNics(now, next);
}

std::vector<std::string> ChangedKeys(const Config& now, const Config& next) {
  std::vector<std::string> keys;
  for (const SettingInfo& info : SettingInfos()) {
    if (ValueOf(info.key, now) != ValueOf(info.key, next)) keys.push_back(NameOf(info));
  }
  for (const DeviceConfig& device : now.devices) {
    const DeviceConfig* const changed = FindNic(next, device.name);
    if (changed == nullptr) continue;
    if (device.rate_bps != changed->rate_bps) keys.push_back(device.name + ".rate");
    if (CongestionFields(device.congestion) != CongestionFields(changed->congestion)) {
      keys.push_back(device.name + ".cc");
    }
    if (device.fault.text != changed->fault.text) keys.push_back(device.name + ".fault");
  }
  return keys;
}

}  // namespace uroce::nic
