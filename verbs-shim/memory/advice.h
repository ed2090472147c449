// SPDX-License-Identifier: Apache-2.0
// madvise(2) of memory that is registered: the effect that it has on ordinary memory.
#pragma once

#include <cstdint>

namespace uroce::memory {

/// The kernel's result: 0 or a negative errno. Memory that no region was ever in costs two loads.
/// What is dropped reads as zeros, for the daemon too; what is said of a mapping is said of the
/// kept one as well, and holds for a fork child and after the registration. Async-signal-safe.
/// Errors besides the kernel's: EAGAIN while another thread forks.
[[nodiscard]] int64_t Advise(uint64_t address, uint64_t length, int advice);

}  // namespace uroce::memory
