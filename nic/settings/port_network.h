// SPDX-License-Identifier: Apache-2.0
// The network of one NIC as its settings say it: addresses, routes, exception interface. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "nic/settings/config.h"

namespace uroce::nic {

/// Each takes the text of one field, whose parts are joined by '+', and adds it to `device`.
/// Errors: one line that names the part and what would be right.
absl::Status AddAddresses(const std::string& text, DeviceConfig& device);
absl::Status AddGateways(const std::string& text, DeviceConfig& device);
absl::Status AddRoutes(const std::string& text, DeviceConfig& device);
/// Who answers for the port's addresses on a kernel interface: "kernel" or "uroce".
absl::Status SetHost(const std::string& text, DeviceConfig& device);
/// One name that the kernel takes for an interface.
absl::Status SetException(const std::string& text, DeviceConfig& device);

/// Whether what the fields say fits together: gateways are on link of an address and not the port
/// itself, no two routes have one prefix, and a port on a kernel interface has none of its own.
absl::Status CheckNetwork(const DeviceConfig& device);

}  // namespace uroce::nic
