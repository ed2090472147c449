// SPDX-License-Identifier: Apache-2.0
// Opens the UDP sockets (udp(7)) of one queue of a port. Control thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/base/types.h"
#include "pipeline/os/fd.h"

namespace uroce::drivers {

inline constexpr uint16_t kRoceUdpPort = 4791;

/// The sockets of one family.
struct UdpFamily {
  /// Ports other than 4791 for sending: flows get different ones, so that networks and receivers
  /// can spread them.
  static constexpr uint16_t kFlowSockets = 8;
  struct FlowSocket {
    Fd fd;
    uint16_t port = 0;  ///< 0xc000 or more; its remainder by kFlowSockets is the index.
  };

  Fd receiver;  ///< Bound to 4791. Empty: the host does not have the family, or no address of it.
  std::array<FlowSocket, kFlowSockets> flows;

  /// The socket for packets that the datapath gave this source port.
  const FlowSocket& FlowOf(uint16_t source_port) const { return flows[source_port % kFlowSockets]; }
};

struct UdpSockets {
  UdpFamily ipv4;
  UdpFamily ipv6;
};

struct UdpPlace {
  std::string interface;       ///< Only packets of this interface, at all of its addresses; or "".
  std::vector<Gid> addresses;  ///< Without `interface`: at most one of each family.
};

/// `is_shared`: other queues have sockets at the same place, and the kernel spreads flows over
/// them. Errors: one line that names the address and the step that failed.
absl::StatusOr<UdpSockets> OpenUdpSockets(const UdpPlace& place, bool is_shared);

/// Packets that the kernel dropped since the socket was opened, because its buffer was full.
uint64_t SocketDrops(const Fd& socket);
/// The memory that what a socket has received may take, as the kernel counts; 0 without a socket.
uint64_t SocketBufferBytes(const Fd& socket);

}  // namespace uroce::drivers
