// SPDX-License-Identifier: Apache-2.0
// Ports and wires that are added and removed while the daemon runs. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/settings/config.h"

namespace uroce::nic {

/// A port or a wire to add: what was written, and the NICs that it means.
struct PortAddition {
  Setting setting;
  std::vector<DeviceConfig> nics;
};

/// Reads what --port takes, or with the key "wire" what --wire takes, and checks it beside the NICs
/// of `present` as at the start. Errors: one line that names the key; Unimplemented: such a port is
/// only made when the daemon starts.
absl::StatusOr<PortAddition> ParsePortAddition(const std::string& key, const std::string& text,
                                               const Config& present);

/// Checks that such a NIC may be removed while the daemon runs. Errors: FailedPrecondition, one
/// line that says why it stays.
absl::Status CheckRemovable(const DeviceConfig& device);

}  // namespace uroce::nic
