// SPDX-License-Identifier: Apache-2.0
// The protection domain of regions and windows in tests.
#pragma once

#include <cstdint>

namespace uroce::datapath {

inline constexpr uint32_t kPd = 7;

}  // namespace uroce::datapath
