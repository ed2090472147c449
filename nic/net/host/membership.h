// SPDX-License-Identifier: Apache-2.0
// The change of a group membership that a host reports.
#pragma once

#include <cstdint>

namespace uroce::nic {

enum class Membership : uint8_t { kJoined, kLeft };

}  // namespace uroce::nic
