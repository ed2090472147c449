// SPDX-License-Identifier: Apache-2.0
// Makes writes to a range of this process's memory wait, by userfaultfd, while its pages are
// replaced.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/maps.h"

namespace uroce::memory {

/// What userfaultfd offers to this process.
struct FaultSupport {
  enum class Origin : uint8_t { kNone, kDevice, kSystemCall };
  Origin origin = Origin::kNone;
  bool kernel_mode = false;      // also stops writes made by the kernel; otherwise these get EFAULT
  bool protects_absent = false;  // write-protects pages that were never touched (Linux 6.4)
  bool protects_shared = false;  // write-protects shared memory too (Linux 5.19)
  int device_fd = -1;            // kDevice: /dev/userfaultfd
};

/// Tries, in this order: the device that the daemon passed (-1: none), the system call, and the
/// system call for user-mode faults only, which needs no privilege.
FaultSupport ProbeFaultSupport(int device_fd);

/// Between Begin() and End() every thread that writes to the pages waits. Its write then goes to
/// the memory that lies at the address after End(). Makes raw system calls only and writes nothing
/// but the stack: it runs under RunOnSwapStack().
class WriteProtection {
 public:
  /// Returns 0 or a negative errno; then no write is stopped, and End() does nothing.
  int64_t Begin(const FaultSupport& support, AddressRange pages);
  /// From here on accesses to absent pages wait too.
  int64_t HoldAbsent();
  /// Wakes every thread that waits.
  void End();

 private:
  int64_t Protect(const FaultSupport& support);
  int64_t Watch(uint64_t mode);

  AddressRange pages_ = {0, 0};
  int64_t fd_ = -1;
};

/// Calls `function` on a stack of this library, with all signals blocked, so that no memory but
/// that stack is written. False when there is no such stack. Not reentrant: the caller holds the
/// lock of the registrations.
[[nodiscard]] bool RunOnSwapStack(void (*function)(void*), void* argument);

/// The address range of that stack, which may adjoin an application's memory.
AddressRange SwapStack();

}  // namespace uroce::memory
