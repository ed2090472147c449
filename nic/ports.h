// SPDX-License-Identifier: Apache-2.0
// Opens the ports that the configuration describes, and builds the network of switches between
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "nic/devices/nic_device.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::drivers {
class SwitchNetwork;
}  // namespace uroce::drivers

namespace uroce::nic {

/// What the start has made for all ports, and ports that are added later use too.
struct PortResources {
  std::vector<datapath::WorkerSeat> seats;  ///< One seat for each worker.
  uint32_t frame_bytes = 0;                 ///< Of a frame of the pools.
  uint32_t further_queues = 0;  ///< Queues beyond the first of each port that the pools can feed.
  /// The network between the devices at switches, or null.
  std::shared_ptr<drivers::SwitchNetwork> network;
};

struct Ports : PortResources {
  std::vector<std::unique_ptr<NicDevice>> devices;
};

/// The queues of the port in a daemon of `workers`: those that are set. Otherwise ports by sockets
/// of the kernel have one for each worker, which gets the packets for its own queue pairs there,
/// and other ports have one.
uint32_t QueuesOf(const DeviceConfig& device, uint32_t workers);
/// The queues beyond the first for which the pools need more frames. Sockets keep none.
uint32_t FurtherQueues(const DeviceConfig& device);

/// Starts DPDK and opens the ports of the configuration. Call it once per process. Errors: one line
/// that names the device.
absl::StatusOr<Ports> OpenPorts(const Config& config);

/// Opens one more port, of udp=, iface= or a memif or at a switch, or both ends of one more wire.
/// `further_queues`: those in use. Errors: one line that names the device and the key.
absl::StatusOr<std::vector<std::unique_ptr<NicDevice>>> OpenAdded(
    const std::vector<DeviceConfig>& configs, const std::vector<uint32_t>& indices,
    const PortResources& resources, uint32_t further_queues);

}  // namespace uroce::nic
