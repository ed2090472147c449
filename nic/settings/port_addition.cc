// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/port_addition.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "drivers/dpdk/device_arguments.h"

namespace uroce::nic {
namespace {

bool IsOfOurOwn(const DeviceConfig& device) {
  const auto arguments = drivers::ParseDeviceArguments(device.dev);
  return arguments.ok() && arguments->rules().is_our_own;
}

/// `present` and `next`: without and with the port.
absl::Status CheckAddable(const DeviceConfig& device, const Config& present, const Config& next) {
  if (device.wire >= 0) return absl::OkStatus();
  if (device.at_switch >= 0) {
    const SwitchSettings& its = present.switches[static_cast<size_t>(device.at_switch)];
    if (next.switches[static_cast<size_t>(device.at_switch)].ports == its.ports) {
      return absl::OkStatus();
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        "switch=", its.name, ": its ", its.ports, " ports have NICs; uroce port remove frees one"));
  }
  if (!IsOfOurOwn(device)) {
    return absl::UnimplementedError(
        absl::StrCat("dev=", device.dev,
                     ": DPDK finds its devices only when uroced starts; give it by --port, "
                     "or add a port by udp=, iface=, switch= or dev=net_memif0"));
  }
  if (!device.exception.empty()) {
    return absl::UnimplementedError(absl::StrCat("exception=", device.exception,
                                                 ": such a port is only made when uroced starts"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PortAddition> ParsePortAddition(const std::string& key, const std::string& text,
                                               const Config& present) {
  absl::StatusOr<Setting> setting = SplitFields("port add", key, text);
  if (!setting.ok()) return setting.status();
  Config next = present;
  if (absl::Status status = AddNics(*setting, next); !status.ok()) return status;
  PortAddition addition{*std::move(setting), {}};
  for (size_t i = present.devices.size(); i < next.devices.size(); ++i) {
    DeviceConfig& device = next.devices[i];
    if (absl::Status status = CheckAddable(device, present, next); !status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("port add: name=", device.name, ": ", status.message()));
    }
    addition.nics.push_back(std::move(device));
  }
  return addition;
}

absl::Status CheckRemovable(const DeviceConfig& device) {
  if (device.wire >= 0 || device.at_switch >= 0) return absl::OkStatus();
  const char* stays = nullptr;
  if (!device.exception.empty()) {
    stays = "it has an exception interface";
  } else if (!IsOfOurOwn(device)) {
    stays = "it is driven by DPDK";
  }
  if (stays == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(device.name, ": ", stays, ", and stays as long as the daemon"));
}

}  // namespace uroce::nic
