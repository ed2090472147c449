// SPDX-License-Identifier: Apache-2.0
// What the kernel says of a PCI device, and whether DPDK can drive the device in its present state.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace uroce::drivers {

/// A PCI device as sysfs shows it. Control thread.
struct PciDevice {
  bool exists = false;
  uint32_t vendor = 0;
  uint32_t class_code = 0;    ///< 0x020000: an Ethernet controller.
  std::string kernel_driver;  ///< "vfio-pci", "e1000e"; "" for none.
  std::string interface;      ///< The kernel's network interface on it, or "".
  std::string iommu_group;    ///< A number; "" without an IOMMU.
};

/// `address` in full: "0000:3b:00.0". `sysfs` is where sysfs is mounted.
PciDevice ReadPciDevice(const std::string& address, const std::string& sysfs = "/sys");

/// Whether DPDK drives the device while its kernel driver stays bound.
bool IsBifurcated(const PciDevice& device);
/// Whether a worker can sleep on interrupts of the device's receive queues.
bool HasQueueInterrupts(const PciDevice& device);

/// Whether DPDK can drive the device. `hugepages` says that DPDK has pages that stay in place.
/// Errors are one line that names the device, what is wrong and the command that mends it. Pure.
absl::Status CheckPciDevice(const std::string& address, const PciDevice& device, bool hugepages);

}  // namespace uroce::drivers
