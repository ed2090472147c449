// SPDX-License-Identifier: Apache-2.0
// Replaces private pages by a memfd that the daemon maps too, at the same addresses and without
// losing a write of any thread.
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
  int device_fd = -1;            // kDevice: /dev/userfaultfd
};

/// Tries the device that the daemon passed (-1: none), the system call, and last the system call
/// for user-mode faults only, which needs no privilege.
FaultSupport ProbeFaultSupport(int device_fd);

struct SwapRequest {
  AddressRange pages;
  int protection;  // PROT_* of the new mapping
  int memfd;       // its bytes from 0 on become the pages
};

/// The pages are write-protected by userfaultfd, copied, and the memfd is mapped over them. A
/// thread that writes meanwhile waits in the fault; when the userfaultfd is closed it repeats its
/// write, on the new mapping. Runs on a stack of its own with all signals blocked, so that nothing
/// but that stack is written; the caller's stack and control block are never in `pages` anyway. Not
/// reentrant: the caller holds the lock of the registrations.
///
/// 0, or an errno: then nothing has changed. Direct I/O that was under way into the pages before is
/// not held back, as with any memory whose pages move.
[[nodiscard]] int SwapPages(const FaultSupport& support, const SwapRequest& request);

/// The stack that SwapPages runs on, which may lie right beside an application's memory.
AddressRange SwapStack();

}  // namespace uroce::memory
