// SPDX-License-Identifier: Apache-2.0
// The limit on the size of files that a program writes, memfds too: `ulimit -f`.
#pragma once

#include <sys/resource.h>

#include <cstdint>

#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {

/// Whether the process may write or extend a file to `bytes`. If it did without, SIGXFSZ would end
/// the program.
inline bool AllowsFileOf(uint64_t bytes) {
  struct rlimit64 limit = {};
  const int64_t result = SystemCall(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &limit);
  return result != 0 || limit.rlim_cur >= bytes;
}

}  // namespace uroce::memory
