// SPDX-License-Identifier: Apache-2.0
// Kernel interfaces as ports: by packet sockets, or without any privilege by UDP sockets.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "drivers/kernel/sockets.h"
#include "pipeline/port/port.h"

struct rte_mempool;

namespace uroce::drivers {

inline constexpr char kPacketSocketDriver[] = "net_iface";
inline constexpr char kUdpDriver[] = "net_udp";

/// A port by packet sockets: packets of a flow that leave together are one superframe for the
/// kernel, and superframes that arrive are taken apart.
struct KernelInterface {
  std::string device;  ///< How messages name it.
  std::string interface;
  friend bool operator==(const KernelInterface&, const KernelInterface&) = default;
};

/// A port by UDP sockets, whose kernel finds the way, resolves neighbours and adds Ethernet and IP.
/// Frames have such headers only inside the daemon.
struct UdpSocket {
  std::string device;  ///< How messages name it.
  std::string text;    ///< The interface or the addresses, as written.
  UdpPlace place;
  std::string identity;  ///< Of StableMac.
  friend bool operator==(const UdpSocket&, const UdpSocket&) = default;
};

/// Opens the interface, with a socket for each queue. Errors are one line that names the interface.
/// Control thread.
absl::StatusOr<std::unique_ptr<Port>> OpenPort(const KernelInterface& kind,
                                               const PortOptions& options, rte_mempool* pool);

/// Opens sockets for each queue, at the interface or at the addresses. Errors are one line that
/// names them. Control thread.
absl::StatusOr<std::unique_ptr<Port>> OpenPort(const UdpSocket& kind, const PortOptions& options,
                                               rte_mempool* pool);

}  // namespace uroce::drivers
