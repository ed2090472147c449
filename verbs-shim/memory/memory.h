// SPDX-License-Identifier: Apache-2.0
// Registration of memory: makes a range of the application's memory reachable for the daemon.
#pragma once

#include <cstdint>

#include "pipeline/shm/abi/uroce_arena.h"
#include "verbs-shim/memory/daemon.h"
#include "verbs-shim/memory/plan.h"
#include "verbs-shim/memory/segment_table.h"

namespace uroce::memory {

/// What ibv_reg_mr and its kin ask for.
struct MemoryRequest {
  uint32_t pd;      // the daemon's handle
  uint32_t access;  // enum ibv_access_flags
  uint64_t addr;
  uint64_t length;
  uint64_t iova;  // what scatter/gather entries and peers call addr; ignored with ZERO_BASED
  bool may_be_empty = false;  // length 0 is no error: of device memory
};

/// A registered region. The caller keeps it until DeregisterMemory().
struct MemoryRegistration {
  uint32_t handle;
  uint32_t lkey;
  uint32_t rkey;
  uint32_t epoch;          // a fork child's registry knows nothing of its parent's
  uint64_t limited_bytes;  // copied because of a limit, not because of what they are
  SegmentReferences references;
};

/// Length of a region at address 0 that is the whole address space: implicit on-demand paging.
inline constexpr uint64_t kWholeAddressSpace = UINT64_MAX;

/// Registers a range. Any thread; registrations wait for each other. Returns 0 or an errno:
/// EINVAL (length 0, a range that wraps, unknown flags, remote writes or atomics without local
/// write, an iova at another place in its page), EOPNOTSUPP (flush), EFAULT (memory that is missing
/// or does not allow the access), ENOMEM, or the daemon's. On an error nothing is left behind.
/// With ON_DEMAND the memory is looked at by each access, and need not be there before.
/// Rules of the arguments: rdma-core's ibv_reg_mr(3), and the checks of the kernel's ib_umem_get.
[[nodiscard]] int RegisterMemory(const Daemon& daemon, const MemoryRequest& request,
                                 MemoryRegistration& registration);

/// Makes `registration` what RegisterMemory(request) would be, under the same handle and keys.
/// Errors as there: then nothing has changed. After 0 no access to the former memory is under way.
[[nodiscard]] int ReregisterMemory(const Daemon& daemon, const MemoryRequest& request,
                                   MemoryRegistration& registration);

/// Ends a registration. After it returns 0, or EIO because the daemon is gone, the daemon does not
/// touch the memory any more, and pages that no other region covers are private ones as before. On
/// any other error the registration stays.
int DeregisterMemory(const Daemon& daemon, MemoryRegistration& registration);

/// Overrides UROCE_MR, which is otherwise read at the first registration.
void SetPolicy(MrPolicy policy);

}  // namespace uroce::memory
