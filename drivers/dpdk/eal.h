// SPDX-License-Identifier: Apache-2.0
// Starting DPDK's environment layer, and the pools that frames come from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct rte_mempool;

namespace uroce::drivers {

/// What DPDK is started with.
struct EalConfig {
  uint32_t memory_mib = 256;
  /// Use hugepages where enough of them are free; ordinary pages else.
  bool allow_hugepages = true;
  /// PCI addresses of NICs to take over. No other PCI device is touched; none: no scan at all.
  std::vector<std::string> pci_devices;
};

/// Starts DPDK once per process. Leaves no file behind and the caller's CPU affinity as it was.
/// Control thread, before any pool or DPDK port is made.
absl::Status InitEal(const EalConfig& config);

/// Whether InitEal would take hugepages now.
bool EnoughHugepages(const EalConfig& config);

/// Bytes of a frame that a pool for ports without wishes of their own holds: Ethernet with a tag,
/// IPv6 and the largest RoCE packet of path MTU 4096, rounded up.
inline constexpr uint32_t kRoceFrameBytes = 4352;

/// A pool of `count` single-segment mbufs, each with room for `frame_bytes` behind the headroom.
/// Threads that allocate fast register with rte_thread_register to get a cache of their own. Its
/// memory is that of `numa_node` where DPDK has memory there; -1: any.
absl::StatusOr<rte_mempool*> MakePool(const std::string& name, uint32_t frame_bytes, uint32_t count,
                                      int numa_node = -1);

/// Bytes of memory that such a pool takes, to choose EalConfig::memory_mib.
uint64_t PoolBytes(uint32_t frame_bytes, uint32_t count);

}  // namespace uroce::drivers
