// SPDX-License-Identifier: Apache-2.0
// What a host says of a multicast group.
#pragma once

#include <cstdint>

namespace uroce::nic {

enum class Membership : uint8_t { kJoined, kLeft };

}  // namespace uroce::nic
