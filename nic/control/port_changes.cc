// SPDX-License-Identifier: Apache-2.0
#include "nic/control/port_changes.h"

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "nic/control/monitor.h"
#include "nic/control/services.h"
#include "nic/objects/nic.h"
#include "nic/settings/port_addition.h"

namespace uroce::nic {
namespace {

/// The settings that hold, with the NICs that are there.
Config Present(const Nic& nic) {
  Config config = nic.config();
  config.devices.clear();
  for (const auto& device : nic.devices()) config.devices.push_back(device->config());
  return config;
}

}  // namespace

absl::Status PortChanges::Add(const std::string& text) {
  if (!opener_) return absl::UnimplementedError("port add: this daemon opens no ports");
  nic_.ReleaseDevices();  // One of them may have the last place.
  absl::StatusOr<PortAddition> addition = ParsePortAddition(text, Present(nic_));
  if (!addition.ok()) return addition.status();
  const absl::StatusOr<uint32_t> index = nic_.NextDeviceIndex();
  if (!index.ok()) {
    return absl::Status(
        index.status().code(),
        absl::StrCat("port add: name=", addition->config.name, ": ", index.status().message()));
  }
  absl::StatusOr<std::unique_ptr<NicDevice>> opened = opener_(addition->config, *index);
  if (!opened.ok()) return opened.status();
  (*opened)->SetAddition(*std::move(addition));
  NicDevice& device = nic_.AddDevice(*std::move(opened));
  services_.rdma_cm.AddDevice(device);
  services_.peers.AddDevice(device);
  services_.paths.AddDevice(device);
  hooks_.added(device);
  monitor_.OnPort(device, /*is_there=*/true);
  spdlog::info("{}: added", device.name());
  return absl::OkStatus();
}

absl::Status PortChanges::Remove(NicDevice& device) {
  if (absl::Status status = CheckRemovable(device.config()); !status.ok()) return status;
  const std::shared_ptr<NicDevice> held = device.shared_from_this();
  hooks_.removed(device);
  nic_.RemoveDevice(device);
  services_.rdma_cm.RemoveDevice(device);
  services_.peers.RemoveDevice(device);
  services_.paths.RemoveDevice(device);
  monitor_.OnPort(device, /*is_there=*/false);
  spdlog::info("{}: removed", device.name());
  return absl::OkStatus();
}

}  // namespace uroce::nic
