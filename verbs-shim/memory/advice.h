// SPDX-License-Identifier: Apache-2.0
// Gives madvise(2) of registered memory the effect that it has on ordinary memory.
#pragma once

#include <cstdint>

namespace uroce::memory {

/// Returns the kernel's result: 0 or a negative errno. Costs two loads for memory that no region
/// was ever in. Dropped pages read as zeros, for the daemon too. Advice for a mapping is also given
/// to its kept mapping, and so holds in a fork child and after the registration. Async-signal-safe.
/// Errors besides the kernel's: EAGAIN while another thread forks.
[[nodiscard]] int64_t Advise(uint64_t address, uint64_t length, int advice);

}  // namespace uroce::memory
