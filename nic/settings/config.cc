// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/config.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nic/settings/daemon_settings.h"
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
    device.wire_interface = config.wire_interfaces && (device.wire >= 0 || device.at_switch >= 0);
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

}  // namespace

// Ports at switches are applied behind all other NICs, since a later flag may make their switch.
// Faults are applied last: they may name devices that a later flag adds.
absl::StatusOr<Config> MakeConfig(const std::vector<Setting>& settings,
                                  const std::string& default_socket) {
  Config config;
  config.socket_path = default_socket;
  std::vector<const Setting*> at_switches;
  std::vector<const Setting*> faults;
  for (const Setting& setting : settings) {
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

}  // namespace uroce::nic
