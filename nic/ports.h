// SPDX-License-Identifier: Apache-2.0
// From the configuration to open ports.
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
  std::vector<datapath::WorkerSeat> seats;  ///< Of the workers.
  std::vector<std::unique_ptr<NicDevice>> devices;
  /// Between the devices at switches, or null. Its hosts are these, in their order.
  std::shared_ptr<drivers::SwitchNetwork> network;
};

/// Starts DPDK and opens the ports of the configuration. Once per process.
/// Errors: one line that names the device.
absl::StatusOr<Ports> OpenPorts(const Config& config);

}  // namespace uroce::nic
