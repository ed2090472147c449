// SPDX-License-Identifier: Apache-2.0
// Ports that are added and removed while the daemon runs. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/settings/config.h"

namespace uroce::nic {

/// A port to add: what was written, and what it means.
struct PortAddition {
  Setting setting;
  DeviceConfig config;
};

/// Reads what --port takes, and checks it beside the NICs of `present` as at the start. Errors: one
/// line that names the key; Unimplemented: such a port is only made when the daemon starts.
absl::StatusOr<PortAddition> ParsePortAddition(const std::string& text, const Config& present);

/// Checks that such a NIC may be removed while the daemon runs. Errors: FailedPrecondition, one
/// line that says why it stays.
absl::Status CheckRemovable(const DeviceConfig& device);

}  // namespace uroce::nic
