// SPDX-License-Identifier: Apache-2.0
// Congestion control of a NIC as a user gives it: only what differs from the defaults.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "pipeline/congestion/settings.h"

namespace uroce::nic {

struct CongestionConfig {
  /// Without a value the kind of port decides (CongestionOf).
  std::optional<congestion::Profile> profile;
  /// Of single priorities; the others have `profile`.
  std::array<std::optional<congestion::Profile>, congestion::kPriorities> of_priority;
  /// Parameters with their values, each once.
  std::vector<std::pair<const congestion::Parameter*, uint32_t>> parameters;
};

}  // namespace uroce::nic
