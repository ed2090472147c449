// SPDX-License-Identifier: Apache-2.0
// What the registration of memory needs of a daemon. Functions, and no virtual ones: these would
// need a C++ library. The session fills them in; tests have a daemon of their own.
#pragma once

#include <cstdint>

#include "verbs-shim/abi/uroce_abi.h"

namespace uroce::memory {

/// A segment that the daemon made: its memfd is the caller's to close.
struct SegmentGrant {
  uint32_t handle;
  int memfd;
};

/// Each function returns 0 or a positive errno. They are called under the lock of the
/// registrations.
struct Daemon {
  void* session;           // identity, too: segments of another session are of no use
  int userfaultfd_device;  // /dev/userfaultfd as the daemon passed it, or -1

  int (*create_segment)(void* session, const uroce_create_segment& request, SegmentGrant& grant);
  int (*destroy_segment)(void* session, uint32_t handle);
  int (*register_region)(void* session, const uroce_reg_mr& region,
                         const uroce_mr_segment* segments, uroce_reg_mr_reply& reply);
  int (*deregister_region)(void* session, uint32_t handle);
  /// Passes this program's /proc/self/mem; `fd` stays the caller's.
  int (*send_memory_fd)(void* session, int fd);
};

}  // namespace uroce::memory
