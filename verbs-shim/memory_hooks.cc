// SPDX-License-Identifier: Apache-2.0
// The hook on libc's madvise: see memory/advice.h. System calls that programs make without libc are
// not seen: verbs-shim/memory/README.md tells the consequences.
#include <sys/mman.h>

#include <cerrno>

#include "verbs-shim/memory/advice.h"
#include "verbs-shim/real_library.h"

extern "C" {

UROCE_EXPORT int madvise(void* address, size_t length, int advice) noexcept {
  const int64_t result =
      uroce::memory::Advise(reinterpret_cast<uintptr_t>(address), length, advice);
  if (result == 0) return 0;
  errno = static_cast<int>(-result);
  return -1;
}

}  // extern "C"
