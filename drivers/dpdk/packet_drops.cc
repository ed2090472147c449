// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/packet_drops.h"

#include <linux/if_packet.h>
#include <sys/socket.h>

namespace uroce::drivers {

uint64_t PacketDrops::Count() {
  for (const int socket : sockets_) {
    tpacket_stats stats{};
    socklen_t length = sizeof stats;
    if (getsockopt(socket, SOL_PACKET, PACKET_STATISTICS, &stats, &length) == 0) {
      total_ += stats.tp_drops;
    }
  }
  return total_;
}

}  // namespace uroce::drivers
