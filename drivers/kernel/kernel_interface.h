// SPDX-License-Identifier: Apache-2.0
// A network interface that the kernel and the daemon share: its state, keeping the kernel from
// answering its RoCE packets, and the frames that packet sockets had no room for. Control thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/base/types.h"

namespace uroce::drivers {

// What the kernel says of a network interface. Control thread.

struct KernelInterface {
  std::string name;
  int ifindex = 0;
  Mac mac{};
  uint32_t mtu_bytes = 0;
  bool link_up = false;    ///< Up and running.
  uint64_t speed_bps = 0;  ///< 0 when the kernel does not know.
};

/// Reads the present state of the interface, in this thread's network namespace. A NotFound error
/// names the interface.
absl::StatusOr<KernelInterface> ReadKernelInterface(const std::string& name);

// Keeps the kernel from answering the RoCE packets of an interface that it and the daemon share.

/// A port on a kernel interface (af_packet, af_xdp, tap) also leaves the frames to the kernel's
/// stack, which would tell each sender that nobody listens on UDP port 4791. This class holds
/// sockets of that UDP port on that interface. Their filter drops everything before it is queued.
class KernelMute {
 public:
  /// No error when another program holds the UDP port: then the kernel does not answer either.
  static absl::StatusOr<KernelMute> Open(const std::string& interface);
  ~KernelMute();
  KernelMute(KernelMute&& other) noexcept : fds_(std::exchange(other.fds_, {})) {}
  KernelMute& operator=(KernelMute&&) = delete;

 private:
  KernelMute() = default;
  std::vector<int> fds_;
};

// Counts frames that the kernel dropped because the rings of AF_PACKET sockets were full.

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
