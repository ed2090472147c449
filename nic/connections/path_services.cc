// SPDX-License-Identifier: Apache-2.0
#include "nic/connections/path_services.h"

#include <utility>

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
      gsi_channels_(OpenGsiChannels(loop, nic)),
      gsi_(loop, neighbours_, PortsOf(nic, gsi_channels_)) {}

PathServices::Channels PathServices::OpenGsiChannels(EventLoop& loop, Nic& nic) {
  Channels channels;
  for (const auto& device : nic.devices()) {
    channels.push_back(std::make_unique<LinkChannel>(
        loop, device->gsi_link(), nic.workers().OwnerOf(wire::kGsiQpn), kGsiPace));
  }
  return channels;
}

std::vector<Gsi::Port> PathServices::PortsOf(const Nic& nic, const Channels& channels) {
  std::vector<Gsi::Port> ports;
  for (const auto& device : nic.devices()) {
    ports.push_back({device.get(), channels[ports.size()].get()});
  }
  return ports;
}

void PathServices::StartHosts(const std::function<void(NicDevice&)>& on_addresses) {
  for (const auto& owned : nic_.devices()) {
    NicDevice* const device = owned.get();
    if (!device->is_host()) continue;
    host_channels_.push_back(std::make_unique<LinkChannel>(loop_, *device->host_link(),
                                                           nic_.HostWorkerOf(*device), kHostPace));
    const HostConfig config{device->mac(), device->config().addresses, device->routes()};
    neighbours_.StartHost(*device, *host_channels_.back(), config,
                          [device, on_addresses](std::vector<InterfaceAddress> usable) {
                            device->SetUsableAddresses(std::move(usable));
                            on_addresses(*device);
                          });
    device->OnGroups([this, device](const Gid& group, bool joined) {
      neighbours_.SetGroup(*device, group, joined);
    });
  }
}

}  // namespace uroce::nic
