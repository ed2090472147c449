// SPDX-License-Identifier: Apache-2.0
// Holds back writes to a range of this process's memory, by userfaultfd, while its pages are
// exchanged.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/maps.h"

namespace uroce::memory {

/// What this process may do with userfaultfd.
struct FaultSupport {
  enum class Origin : uint8_t { kNone, kDevice, kSystemCall };
  Origin origin = Origin::kNone;
  bool kernel_mode = false;      // holds back writes made by the kernel too; else these get EFAULT
  bool protects_absent = false;  // write-protects pages that were never touched (Linux 6.4)
  bool protects_shared = false;  // write-protects shared memory too (Linux 5.19)
  int device_fd = -1;            // kDevice: /dev/userfaultfd
};

/// Tries the device that the daemon passed (-1: none), the system call, and last the system call
/// for user-mode faults only, which needs no privilege.
FaultSupport ProbeFaultSupport(int device_fd);

/// Between Begin() and End() every thread that writes to the pages waits; what it writes goes to
/// whatever lies at the address after End(). Only raw system calls, and nothing written but the
/// stack: it runs under RunOnSwapStack().
class WriteProtection {
 public:
  /// 0 or a negative errno; then nothing is held back, and End() does nothing.
  int64_t Begin(const FaultSupport& support, AddressRange pages);
  /// From here on accesses to pages that are not there wait too.
  int64_t HoldAbsent();
  /// Wakes every thread that waits.
  void End();

 private:
  int64_t Protect(const FaultSupport& support);
  int64_t Watch(uint64_t mode);

  AddressRange pages_ = {0, 0};
  int64_t fd_ = -1;
};

/// Calls `function` on a stack of this library's, with all signals blocked, so that nothing but
/// that stack is written. False when there is no such stack. Not reentrant: the caller holds the
/// lock of the registrations.
[[nodiscard]] bool RunOnSwapStack(void (*function)(void*), void* argument);

/// That stack, which may lie right beside an application's memory.
AddressRange SwapStack();

}  // namespace uroce::memory
