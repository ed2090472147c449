// SPDX-License-Identifier: Apache-2.0
// What the registration of memory needs of a daemon. These are function pointers, since virtual
// functions would need a C++ library. The connection sets them; tests have their own daemon.
#pragma once

#include <cstdint>

#include "pipeline/shm/abi/uroce_commands.h"
#include "verbs-shim/memory/maps.h"

namespace uroce::memory {

/// A segment that the daemon made. The caller closes its memfd.
struct SegmentGrant {
  uint32_t handle;
  int memfd;
};

/// Bytes of a file that the program has mapped shared.
struct SharedFile {
  AddressRange vma;  // where it is mapped
  bool writable;     // a region writes to it
  int fd;            // -1: the daemon looks for the file
  uint64_t offset;
  uint64_t length;
};
/// The segment that the daemon made of these bytes of the file.
struct SharedGrant {
  uint32_t handle;
  uint64_t offset;
  uint64_t length;
};

/// Each function returns 0 or a positive errno. They are called under the lock of the
/// registrations.
struct Daemon {
  void* connection;        // also its identity: segments of another connection cannot be used
  int userfaultfd_device;  // /dev/userfaultfd as the daemon passed it, or -1

  int (*create_segment)(void* connection, const uroce_create_segment& request, SegmentGrant& grant);
  int (*destroy_segment)(void* connection, uint32_t handle);
  int (*trim_segment)(void* connection, const uroce_trim_segment& request);
  int (*register_region)(void* connection, const uroce_reg_mr& region,
                         const uroce_mr_segment* segments, uroce_reg_mr_reply& reply);
  int (*deregister_region)(void* connection, uint32_t handle);
  /// Passes this program's /proc/self/mem; the caller keeps `fd`.
  int (*send_memory_fd)(void* connection, int fd);
  /// Makes the copy lanes, and serves them.
  int (*open_copies)(void* connection);
  /// Makes the stage, and serves it. `address` is memory of a device.
  int (*open_stage)(void* connection, uint64_t address);
  /// Lends a file; the caller keeps `file.fd`.
  int (*share_file)(void* connection, const SharedFile& file, SharedGrant& grant);
};

}  // namespace uroce::memory
