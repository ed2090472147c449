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

/// One end of a memif: frames in shared memory between two processes. The names of the options are
/// those of DPDK's driver of that name.
struct MemifConfig {
  bool is_server = false;
  std::string socket;           ///< The server listens there.
  uint32_t id = 0;              ///< Both ends must give the same.
  uint16_t buffer_bytes = 0;    ///< bsize: of each slot. The client's counts for both directions.
  uint8_t log2_ring_slots = 0;  ///< rsize. The client's counts.
  std::string secret;           ///< The client must know the server's, where it has one.
  Mac mac{};
};

/// Reads and checks all options; `arguments` are of driver net_memif.
/// Errors: InvalidArgument, which names the device, the option, its value and what would be right.
absl::StatusOr<MemifConfig> ParseMemifConfig(const DeviceArguments& arguments);

/// Bytes of an Ethernet payload that fit one buffer behind header and VLAN tag.
uint32_t MemifMtuBytes(const MemifConfig& config);

}  // namespace uroce::drivers
