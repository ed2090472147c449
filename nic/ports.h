// SPDX-License-Identifier: Apache-2.0
// Opens the ports that the configuration describes.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "nic/devices/nic_device.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/worker/workers.h"

namespace uroce::drivers {
class SwitchNetwork;
}

namespace uroce::nic {

struct Ports {
  std::vector<datapath::WorkerSeat> seats;  ///< One seat for each worker.
  std::vector<std::unique_ptr<NicDevice>> devices;
  /// The network between the devices at switches, or null. Its hosts are these devices, in order.
  std::shared_ptr<drivers::SwitchNetwork> network;
};

/// Starts DPDK and opens the ports of the configuration. Call it once per process. Errors: one line
/// that names the device.
absl::StatusOr<Ports> OpenPorts(const Config& config);

}  // namespace uroce::nic
