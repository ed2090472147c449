// SPDX-License-Identifier: Apache-2.0
// What a port is made of. Each kind is a type, made once, where the setting is read.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "drivers/dpdk/dpdk_port.h"
#include "drivers/kernel/kernel_ports.h"
#include "drivers/memif/memif_config.h"

namespace uroce::nic {

/// One end of an in-process cable, which the settings call a wire. Each cable has two NICs, the
/// second behind the first.
struct CableEnd {
  int cable = 0;  ///< Its number.
  friend bool operator==(const CableEnd&, const CableEnd&) = default;
};

/// A port of an emulated switch.
struct SwitchPort {
  uint32_t switch_index = 0;  ///< Of the daemon's switches.
  friend bool operator==(const SwitchPort&, const SwitchPort&) = default;
};

/// monostate: no setting has said it yet.
using PortKind = std::variant<std::monostate, drivers::KernelInterface, drivers::UdpSocket,
                              drivers::DpdkDevice, drivers::MemifConfig, CableEnd, SwitchPort>;

/// Parses a device argument, of DPDK or of a memif. Errors: see drivers::ParseDeviceArguments and
/// drivers::ParseMemifConfig.
absl::StatusOr<PortKind> ParseDevice(const std::string& text);
/// The interface of this name.
absl::StatusOr<PortKind> ParseInterface(const std::string& name);
/// UDP sockets at an interface, or at addresses joined by '+'.
absl::StatusOr<PortKind> ParseUdpInterface(const std::string& name);
absl::StatusOr<PortKind> ParseUdpAddresses(const std::string& addresses);

/// The kernel interface that the port sends and receives on, or "".
std::string InterfaceOf(const PortKind& kind);
/// Whether ports of the kind may come and go while the daemon runs: those that DPDK drives stay.
bool MayComeAndGo(const PortKind& kind);

}  // namespace uroce::nic
