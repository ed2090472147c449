// SPDX-License-Identifier: Apache-2.0
// Counts frames that the kernel dropped because the rings of AF_PACKET sockets were full.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace uroce::drivers {

/// net_af_packet of DPDK 22.11 does not ask for them; the kernel counts them per socket, and starts
/// anew whenever it is asked (packet(7), PACKET_STATISTICS). Control thread.
class PacketDrops {
 public:
  /// From now on these sockets are asked, which stay their owner's; what others had lost is kept.
  void Watch(std::vector<int> sockets) { sockets_ = std::move(sockets); }
  /// Frames lost so far. Asked now and then, so that the kernel's 32 bits do not overflow.
  uint64_t Count();

 private:
  std::vector<int> sockets_;
  uint64_t total_ = 0;
};

}  // namespace uroce::drivers
