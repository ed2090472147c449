// SPDX-License-Identifier: Apache-2.0
#include "nic/switch_network.h"

#include <algorithm>

#include "drivers/wire/wire_port.h"

namespace uroce::nic {
namespace {

constexpr uint32_t kFewestFrames = 4096;
constexpr uint32_t kMostFrames = 32768;
/// The assumed average size of buffered frames. With smaller frames their number is the limit, like
/// the number of cells in a real switch.
constexpr uint64_t kUsualFrameBytes = 1024;

uint64_t BytesOnTheWay(const fabric::LinkConfig& link) {
  return static_cast<uint64_t>(link.delay.count()) * (link.rate_bps / 1'000'000) / 8'000;
}

/// The most frames in switches and on links.
uint32_t MostFrames(const Config& config) {
  uint64_t bytes = 0;
  for (const SwitchSettings& each : config.switches) {
    bytes += each.config.buffer_bytes;
    bytes += each.ports * (2 * BytesOnTheWay(each.link) + each.link.host_queue_bytes);
    bytes += each.neighbours.size() * 2 * BytesOnTheWay(each.trunk());
  }
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(bytes / kUsualFrameBytes, kFewestFrames, kMostFrames));
}

uint32_t IndexOf(const std::string& name, const Config& config) {
  const auto found = std::ranges::find(config.switches, name, &SwitchSettings::name);
  return static_cast<uint32_t>(found - config.switches.begin());
}

}  // namespace

uint32_t FramesInNetwork(const Config& config) {
  if (config.switches.empty()) return 0;
  const auto hosts = std::ranges::count_if(
      config.devices, [](const DeviceConfig& device) { return device.at_switch >= 0; });
  return MostFrames(config) + static_cast<uint32_t>(hosts) * drivers::kSwitchReceiveFrames;
}

std::shared_ptr<drivers::SwitchNetwork> MakeSwitchNetwork(const Config& config,
                                                          rte_mempool* copies) {
  if (config.switches.empty()) return nullptr;
  drivers::SwitchNetworkConfig network{.switches = {},
                                       .trunks = {},
                                       .nics = {},
                                       .max_frames = MostFrames(config),
                                       .queues = static_cast<uint16_t>(config.workers)};
  for (const SwitchSettings& each : config.switches) {
    const auto index = static_cast<uint32_t>(network.switches.size());
    network.switches.push_back(each.config);
    for (const std::string& neighbour : each.neighbours) {
      network.trunks.push_back({index, IndexOf(neighbour, config), each.trunk()});
    }
  }
  for (uint32_t index = 0; index < config.devices.size(); ++index) {
    const DeviceConfig& device = config.devices[index];
    if (device.at_switch < 0) continue;
    const auto at = static_cast<uint32_t>(device.at_switch);
    network.nics.push_back({.mac = drivers::LocalMac(device.name, index),
                            .mtu_bytes = device.mtu_bytes,
                            .switch_index = at,
                            .link = config.switches[at].link,
                            .device = index});
  }
  return std::make_shared<drivers::SwitchNetwork>(network, copies);
}

}  // namespace uroce::nic
