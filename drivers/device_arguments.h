// SPDX-License-Identifier: Apache-2.0
// DPDK device arguments as users write them: "net_af_packet0;iface=veth0", "0000:3b:00.0".
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace uroce::drivers {

/// A parsed device argument.
struct DeviceArguments {
  std::string name;    ///< "net_af_packet0", "0000:3b:00.0".
  std::string driver;  ///< "net_af_packet"; "" for a PCI address.
  std::vector<std::pair<std::string, std::string>> values;  ///< In the user's order.

  const std::string* Find(absl::string_view key) const;
  /// The kernel interface that the driver attaches to, or "".
  std::string Interface() const;
  bool IsPci() const { return driver.empty(); }
  /// As DPDK takes it, with commas.
  std::string ToDpdk() const;
};

/// Parses `text`, parts separated by ';' or ',', and adds what the driver needs to carry RoCE
/// frames where the user does not say otherwise.
absl::StatusOr<DeviceArguments> ParseDeviceArguments(const std::string& text);

/// Bytes of a frame that the mbufs of this port must hold (see MakePool).
uint32_t RequiredFrameBytes(const DeviceArguments& arguments);

}  // namespace uroce::drivers
