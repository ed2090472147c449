// SPDX-License-Identifier: Apache-2.0
// Starts DPDK's environment layer (EAL), makes the pools that frames come from, and says whether
// DPDK can drive a PCI device in its present state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct rte_mempool;

namespace uroce::drivers {

/// The settings that DPDK is started with.
struct EalConfig {
  uint32_t memory_mib = 256;
  /// Use hugepages when enough of them are free, and ordinary pages otherwise.
  bool allow_hugepages = true;
  /// PCI addresses of NICs to take over. No other PCI device is touched. Empty: PCI is not scanned.
  std::vector<std::string> pci_devices;
};

/// Starts DPDK once per process. Leaves no file behind, and does not change the caller's CPU
/// affinity.
/// Control thread, before any pool or DPDK port is made.
absl::Status InitEal(const EalConfig& config);
/// The drivers of DPDK that InitEal could not load, each with the reason. DPDK starts without them.
const std::vector<std::string>& DriversLeftOut();

/// Brings in all pages of DPDK's memory, so that no thread ends by SIGBUS at one that the kernel
/// has no memory for. InitEal calls it where vm.overcommit_memory is 2: elsewhere the kernel makes
/// a page when a frame first needs it, and an idle daemon stays small.
absl::Status PopulateDpdkMemory();

/// Whether InitEal would take hugepages now.
bool EnoughHugepages(const EalConfig& config);

/// Bytes of a frame in the pool that all ports without special needs share: Ethernet with a tag,
/// IPv6 and the largest RoCE packet of path MTU 4096, rounded up.
inline constexpr uint32_t kRoceFrameBytes = 4352;

/// Bytes of a frame that the mbufs of any port must hold. `mtu_bytes` is the MTU that the user
/// asked for, or 0.
uint32_t RequiredFrameBytes(uint32_t mtu_bytes);

/// A pool of `count` single-segment mbufs, each with room for `frame_bytes` behind the headroom.
/// Threads that allocate often call rte_thread_register to get their own cache. The pool's memory
/// is on `numa_node` when DPDK has memory there; -1: any node.
absl::StatusOr<rte_mempool*> MakePool(const std::string& name, uint32_t frame_bytes, uint32_t count,
                                      int numa_node = -1);

/// Bytes of memory that such a pool takes, to choose EalConfig::memory_mib.
uint64_t PoolBytes(uint32_t frame_bytes, uint32_t count);

// ---- PCI devices ----

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
