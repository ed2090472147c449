// SPDX-License-Identifier: Apache-2.0
// A page that is wiped on fork.
#include "verbs-shim/memory/fault_state.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {
namespace {

FaultState* found = nullptr;

}  // namespace

bool MakeFaultState() {
  if (FindFaultState() != nullptr) return true;
  const int64_t page = SystemCall(SYS_mmap, 0, kPageBytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (IsError(page)) return false;
  if (SystemCall(SYS_madvise, page, kPageBytes, MADV_WIPEONFORK) != 0) {
    SystemCall(SYS_munmap, page, kPageBytes);
    return false;
  }
  __atomic_store_n(&found, reinterpret_cast<FaultState*>(page), __ATOMIC_RELEASE);
  return true;
}

FaultState* FindFaultState() { return __atomic_load_n(&found, __ATOMIC_ACQUIRE); }

void AwaitSequence(FaultState& state, uint32_t value) {
  SystemCall(SYS_futex, &state.sequence, FUTEX_WAIT_PRIVATE, value, 0, 0, 0);
}

}  // namespace uroce::memory
