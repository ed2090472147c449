// SPDX-License-Identifier: Apache-2.0
// Opens and closes Ethernet devices of DPDK. Control thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "drivers/dpdk/device_arguments.h"
#include "drivers/port.h"

struct rte_mempool;

namespace uroce::drivers {

/// What a user may ask of a device besides its arguments.
struct DeviceOptions {
  uint32_t mtu_bytes = 0;  ///< Ethernet payload; 0: the device's own MTU.
  uint16_t queues = 1;     ///< Receive queues, with RSS where the device has it.
  uint16_t workers = 1;    ///< Threads that drive it; each has a transmit queue, up to `queues`.
  std::optional<FlowControl> flow_control;  ///< No value: it stays as the device has it.
};

/// A started device.
struct DpdkDevice {
  uint16_t port_id = 0;
  uint16_t queues = 1;
  bool has_interrupts = false;    ///< rte_eth_dev_rx_intr_enable works on all queues.
  std::vector<int> fds;           ///< The driver's own fds; each is readable while frames wait.
  bool checks_ip_header = false;  ///< The device marks frames whose IPv4 header checksum is wrong.
};

/// Probes, configures and starts the device, with the receive and transmit queues of `options` and
/// frames in single mbufs of `pool`. When receive interrupts do not start, the device runs without
/// them. Call it after InitEal and CheckDevice. Errors are one line that names the device and
/// option.
absl::StatusOr<DpdkDevice> OpenDevice(const DeviceArguments& arguments,
                                      const DeviceOptions& options, rte_mempool* pool);

/// Stops and removes the device, so that the same name can be opened again. No worker is inside.
void CloseDevice(const DpdkDevice& device);

}  // namespace uroce::drivers
