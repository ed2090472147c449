// SPDX-License-Identifier: Apache-2.0
// The settings of a memif, parsed from "net_memif0;role=server;socket=/run/x.sock".
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "drivers/dpdk/device_arguments.h"
#include "pipeline/base/types.h"

namespace uroce::drivers {

inline constexpr char kMemifDriver[] = "net_memif";

/// The settings of one end of a memif: frames in shared memory between two processes. The options
/// have the names that DPDK's driver of that name gives them.
struct MemifConfig {
  std::string device;  ///< How messages name it: "net_memif0".
  bool is_server = false;
  std::string socket;           ///< The path that the server listens at.
  uint32_t id = 0;              ///< Both ends must give the same id.
  uint16_t buffer_bytes = 0;    ///< Option bsize, of each slot. The client's value holds both ways.
  uint8_t log2_ring_slots = 0;  ///< Option rsize. The client's value holds for both ends.
  std::string secret;           ///< The client must give the server's secret, if there is one.
  Mac mac{};
  friend bool operator==(const MemifConfig&, const MemifConfig&) = default;
};

/// Reads and checks all options; `arguments` are of driver net_memif.
/// Errors: InvalidArgument, which names the device, the option, its value and what would be right.
absl::StatusOr<MemifConfig> ParseMemifConfig(const DeviceArguments& arguments);

/// Bytes of a frame that the mbufs of this port must hold. `mtu_bytes` is the MTU that the user
/// asked for, or 0.
uint32_t RequiredFrameBytes(const MemifConfig& config, uint32_t mtu_bytes);

/// Bytes of an Ethernet payload that fit one buffer after the header and a VLAN tag.
uint32_t MemifMtuBytes(const MemifConfig& config);

}  // namespace uroce::drivers
