// SPDX-License-Identifier: Apache-2.0
// Counts frames that the kernel dropped because the rings of AF_PACKET sockets were full.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace uroce::drivers {

/// Reads the drops, since net_af_packet of DPDK 22.11 does not. The kernel counts them per socket
/// and resets the count at each query (packet(7), PACKET_STATISTICS). Control thread.
class PacketDrops {
 public:
  /// Queries these sockets from now on; their owner keeps them. Drops counted before stay in the
  /// sum.
  void Watch(std::vector<int> sockets) { sockets_ = std::move(sockets); }
  /// Frames lost so far. Call it regularly, so that the kernel's 32-bit counter does not overflow.
  uint64_t Count();

 private:
  std::vector<int> sockets_;
  uint64_t total_ = 0;
};

}  // namespace uroce::drivers
