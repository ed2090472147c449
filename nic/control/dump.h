// SPDX-License-Identifier: Apache-2.0
// The daemon's state and counters as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nic/resources/nic.h"

namespace uroce::nic {

class Session;

/// What uroce_dump_what names. Devices and their counters are for everybody; queue pairs and memory
/// regions of other users only for the privileged.
absl::StatusOr<std::string> DumpText(uint32_t what, Nic& nic,
                                     const std::vector<const Session*>& sessions,
                                     const Session& asker);

}  // namespace uroce::nic
