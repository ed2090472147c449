// SPDX-License-Identifier: Apache-2.0
#include "nic/control/port_changes.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "drivers/switch/switch_network.h"
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

/// The place of a NIC at a switch.
std::optional<uint32_t> PlaceOf(const Nic& nic, const NicDevice& device) {
  return device.at_switch() ? nic.network()->HostOf(device.index()) : std::nullopt;
}

}  // namespace

absl::Status PortChanges::Add(const std::string& key, const std::string& text) {
  if (!opener_) return absl::UnimplementedError("port add: this daemon opens no ports");
  nic_.ReleaseDevices();  // One of them may have the last place.
  absl::StatusOr<PortAddition> parsed = ParsePortAddition(key, text, Present(nic_));
  if (!parsed.ok()) return parsed.status();
  const auto addition = std::make_shared<const PortAddition>(*std::move(parsed));
  const auto indices = nic_.NextDeviceIndices(addition->nics.size());
  if (!indices.ok()) {
    return absl::Status(indices.status().code(),
                        absl::StrCat("port add: name=", addition->nics.front().name, ": ",
                                     indices.status().message()));
  }
  auto opened = opener_(addition->nics, *indices);
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
  spdlog::info("{}: added", device.name());
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
  spdlog::info("{}: removed", device.name());
  return absl::OkStatus();
}

}  // namespace uroce::nic
