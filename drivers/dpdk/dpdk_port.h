// SPDX-License-Identifier: Apache-2.0
// A port that DPDK drives: a physical NIC, or one of DPDK's virtual devices.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "drivers/dpdk/device_arguments.h"
#include "pipeline/port/port.h"

struct rte_mempool;

namespace uroce::drivers {

/// A device that DPDK drives.
struct DpdkDevice {
  std::string text;  ///< As written, with commas.
  DeviceArguments arguments;
  friend bool operator==(const DpdkDevice&, const DpdkDevice&) = default;
};

/// Opens the device, with frames in mbufs of `pool`. On a kernel interface the port has the
/// kernel's MAC, MTU and link state, and the kernel is kept from answering RoCE packets. Call it
/// after InitEal, on the control thread. Errors are one line that names the device and the option.
absl::StatusOr<std::unique_ptr<Port>> OpenPort(const DpdkDevice& kind, const PortOptions& options,
                                               rte_mempool* pool);

}  // namespace uroce::drivers
