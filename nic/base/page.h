// SPDX-License-Identifier: Apache-2.0
// Pages of memory, as the kernel maps them on x86-64, and Debian's on arm64.
#pragma once

#include <cstdint>

namespace uroce::nic {

inline constexpr uint64_t kPageBytes = 4096;

}  // namespace uroce::nic
