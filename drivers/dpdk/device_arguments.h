// SPDX-License-Identifier: Apache-2.0
// DPDK device arguments as users write them: "net_af_packet0;iface=veth0", "0000:3b:00.0". Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "drivers/dpdk/driver_rules.h"
#include "pipeline/base/types.h"

namespace uroce::drivers {

/// A parsed device argument.
struct DeviceArguments {
  std::string name;    ///< "net_af_packet0", "0000:3b:00.0".
  std::string driver;  ///< "net_af_packet"; "" for a PCI address.
  std::vector<std::pair<std::string, std::string>> values;  ///< In the user's order.
  std::optional<Mac> mac;  ///< The port's own address, for drivers without a kernel interface.

  const std::string* Find(absl::string_view key) const;
  /// The value of `key`, or "".
  std::string Value(absl::string_view key) const;
  /// Gives `key` a value where it has none.
  void AddDefault(absl::string_view key, absl::string_view value);
  const DriverRules& rules() const { return RulesOf(driver); }
  /// The kernel interface that the port sends and receives on, or "".
  std::string Interface() const;
  /// Whether the kernel goes on using that interface: then the interface's addresses, neighbours
  /// and routes are also the port's.
  bool IsShared() const;
  bool IsPci() const { return driver.empty(); }
  /// The arguments as DPDK takes them, separated by commas.
  std::string ToDpdk() const;
};

/// Parses `text`, whose parts are separated by ';' or ',', and adds what the driver needs to carry
/// RoCE frames, unless the user gave another value. `mac` is a key of every port without a kernel
/// interface. Errors name the device, the key, the value and what would be right.
absl::StatusOr<DeviceArguments> ParseDeviceArguments(const std::string& text);

/// How many frames a pool that serves one port alone has (DriverRules::own_pool_frame_bytes).
inline constexpr uint32_t kOwnPoolFrames = 8192;

/// Bytes of a frame that the mbufs of this port must hold (see MakePool). `mtu_bytes` is the MTU
/// that the user asked for, or 0.
uint32_t RequiredFrameBytes(const DeviceArguments& arguments, uint32_t mtu_bytes);

}  // namespace uroce::drivers
