// SPDX-License-Identifier: Apache-2.0
#include "nic/connections/path_services.h"

#include <utility>
#include <vector>

namespace uroce::nic {
namespace {

constexpr LinkChannel::Pace kGsiPace{.frames_per_turn = 256, .pause = Nanos(0)};
constexpr LinkChannel::Pace kHostPace{.frames_per_turn = 64, .pause = Nanos(1'000'000)};

}  // namespace

PathServices::PathServices(EventLoop& loop, Nic& nic)
    : loop_(loop),
      nic_(nic),
      neighbours_(loop, netlink_, nic.net_devices(),
                  [&nic](std::span<const FollowedPath> paths) { nic.MovePaths(paths); }),
      gsi_(loop, neighbours_, {}) {
  for (const auto& device : nic.devices()) OpenGsi(*device);
}

void PathServices::OpenGsi(NicDevice& device) {
  std::unique_ptr<LinkChannel>& channel = gsi_channels_[&device];
  channel = std::make_unique<LinkChannel>(loop_, device.gsi_link(),
                                          nic_.workers().OwnerOf(wire::kGsiQpn), kGsiPace);
  gsi_.AddPort({&device, channel.get()});
}

void PathServices::StartHosts(std::function<void(NicDevice&)> on_addresses) {
  on_addresses_ = std::move(on_addresses);
  for (const auto& device : nic_.devices()) StartHost(*device);
}

void PathServices::StartHost(NicDevice& device) {
  if (!device.is_host()) return;
  std::unique_ptr<LinkChannel>& channel = host_channels_[&device];
  channel = std::make_unique<LinkChannel>(loop_, *device.host_link(), nic_.HostWorkerOf(device),
                                          kHostPace);
  const HostConfig config{device.mac(), device.config().addresses, device.routes()};
  neighbours_.StartHost(device, *channel, config,
                        [this, &device](std::vector<InterfaceAddress> usable) {
                          device.SetUsableAddresses(std::move(usable));
                          on_addresses_(device);
                        });
  device.OnGroups([this, &device](const Gid& group, bool joined) {
    neighbours_.SetGroup(device, group, joined);
  });
}

void PathServices::AddDevice(NicDevice& device) {
  neighbours_.AddDevice(device);
  OpenGsi(device);
  StartHost(device);
}

void PathServices::RemoveDevice(NicDevice& device) {
  gsi_.RemovePort(device);
  gsi_channels_.erase(&device);
  neighbours_.RemoveDevice(device);
  host_channels_.erase(&device);
}

}  // namespace uroce::nic
