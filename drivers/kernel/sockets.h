// SPDX-License-Identifier: Apache-2.0
// The sockets of ports on kernel interfaces: packet sockets (packet(7)), UDP sockets (udp(7)), and
// the sockets that keep the kernel from answering RoCE packets. Control thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/base/types.h"
#include "pipeline/os/fd.h"

namespace uroce::drivers {

// ---- packet sockets ----

struct PacketSocketOptions {
  int ifindex = 0;
  bool takes_all_frames = false;  ///< Not only RoCE frames.
  /// How many share the interface's frames. The kernel gives each the RoCE packets for the queue
  /// pairs of its worker, as OpenUdpSockets says, and the first one all other frames.
  uint16_t sockets = 1;
  uint16_t fanout_id = 0;  ///< The same for all of them, and for no others.
};

/// Opens a socket that sends and receives frames with a virtio_net_hdr before each (superframe.h),
/// and does not receive frames that leave the interface. An error says which step failed.
absl::StatusOr<Fd> OpenPacketSocket(const PacketSocketOptions& options);

/// Counts frames that the kernel dropped because the rings of AF_PACKET sockets were full:
/// net_af_packet of DPDK 22.11 does not count them. The kernel counts them per socket and resets
/// the count at each query (packet(7), PACKET_STATISTICS).
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

// ---- UDP sockets ----

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

/// The sockets of one queue of a port.
struct UdpSockets {
  UdpFamily ipv4;
  UdpFamily ipv6;
};

struct UdpPlace {
  std::string interface;       ///< Only packets of this interface, at all of its addresses; or "".
  std::vector<Gid> addresses;  ///< Without `interface`: at most one of each family.
  friend bool operator==(const UdpPlace&, const UdpPlace&) = default;
};

/// `queues`: as many have sockets at the same place, opened in their order. The kernel gives each
/// the packets for the queue pairs of its worker, if each worker has a queue: a classic BPF program
/// computes it from the destination QPN. Errors: one line that names the address and the step that
/// failed.
absl::StatusOr<UdpSockets> OpenUdpSockets(const UdpPlace& place, uint16_t queues);

/// Packets that the kernel dropped since the socket was opened, because its buffer was full.
uint64_t SocketDrops(const Fd& socket);
/// The memory that what a socket has received may take, as the kernel counts; 0 without a socket.
uint64_t SocketBufferBytes(const Fd& socket);

// ---- silence ----

/// A port on a kernel interface (iface, af_packet, af_xdp, tap) also leaves the frames to the
/// kernel's stack, which would tell each sender that no program receives on UDP port 4791, and
/// would give them to any program that does. This class holds sockets of that UDP port on that
/// interface. Their filter drops everything before it is queued. While they are open, the kernel
/// refuses that port of the interface and of its addresses to the programs of all other users.
class KernelMute {
 public:
  /// Errors: AlreadyExists when a program of a user other than root and the daemon's own holds the
  /// UDP port: it would receive the packets of the interface.
  static absl::StatusOr<KernelMute> Open(const std::string& interface);

  /// Whether a program of root or of the daemon's own user, or rdma_rxe, holds the UDP port
  /// instead.
  bool is_shared() const { return is_shared_; }

 private:
  KernelMute() = default;

  std::vector<Fd> fds_;
  bool is_shared_ = false;
};

}  // namespace uroce::drivers
