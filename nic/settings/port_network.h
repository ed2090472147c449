// SPDX-License-Identifier: Apache-2.0
// Parses the network settings of one NIC: addresses, routes, exception interface. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "nic/settings/config.h"

namespace uroce::nic {

/// Each parses the text of one field, whose parts are joined by '+', and adds it to `device`.
/// Errors: one line that names the part and what would be right.
absl::Status AddAddresses(const std::string& text, DeviceConfig& device);
absl::Status AddGateways(const std::string& text, DeviceConfig& device);
absl::Status AddRoutes(const std::string& text, DeviceConfig& device);
/// The host that answers for the port's addresses on a kernel interface: "kernel" or "uroce".
absl::Status SetHost(const std::string& text, DeviceConfig& device);
/// Sets the name of an interface, which must be valid for the kernel.
absl::Status SetException(const std::string& text, DeviceConfig& device);

/// Checks that the fields are consistent: gateways are on link of an address and not the port
/// itself, no two routes have the same prefix, and a port on a kernel interface has no routes.
absl::Status CheckNetwork(const DeviceConfig& device);

}  // namespace uroce::nic
