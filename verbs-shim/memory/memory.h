// SPDX-License-Identifier: Apache-2.0
// A registration from arguments to keys, and madvise of registered memory.
#pragma once

#include <cstdint>

#include "pipeline/shm/abi/uroce_arena.h"
#include "verbs-shim/memory/daemon.h"
#include "verbs-shim/memory/plan.h"
#include "verbs-shim/memory/segment_table.h"

namespace uroce::memory {

// ---- Registration ----

/// The arguments of ibv_reg_mr and related verbs.
struct MemoryRequest {
  uint32_t pd;      // the daemon's handle
  uint32_t access;  // enum ibv_access_flags
  uint64_t addr;
  uint64_t length;         // 0: a region for messages without bytes, at any address
  uint64_t iova;           // the address that SGEs and peers use for addr; ignored with ZERO_BASED
  bool is_device = false;  // memory of a GPU
};

/// A registered region. The caller keeps it until DeregisterMemory().
struct MemoryRegistration {
  uint32_t handle;
  uint32_t lkey;
  uint32_t rkey;
  uint32_t epoch;          // a fork child's registry has none of its parent's registrations
  uint64_t limited_bytes;  // copied because of a limit, not because of their kind
  uint64_t mapped_bytes;   // in segments
  bool is_copied;          // The daemon maps no part of it, and no access to it may wait.
  SegmentReferences references;
};

/// Length of a region at address 0 that covers the whole address space: implicit on-demand paging.
inline constexpr uint64_t kWholeAddressSpace = UINT64_MAX;

/// Opens the files that registrations need, while the program has a free fd, /proc and the right to
/// them.
void PrepareForRegistrations();

/// Registers a range. Any thread; registrations run one at a time. Returns 0 or an errno: EINVAL
/// (a range that wraps, unknown flags, remote writes or atomics without local write, an
/// iova at another offset in its page), EOPNOTSUPP (flush), EFAULT (memory that is missing or does
/// not allow the access), ENOMEM, or the daemon's. An error leaves nothing behind. With ON_DEMAND
/// each access looks the memory up, so it need not exist before. Rules of the arguments:
/// rdma-core's ibv_reg_mr(3), and the checks of the kernel's ib_umem_get.
[[nodiscard]] int RegisterMemory(const Daemon& daemon, const MemoryRequest& request,
                                 MemoryRegistration& registration);

/// Changes `registration` to what RegisterMemory(request) would make, with the same handle and
/// keys. The errors are the same, and leave all unchanged. After 0 no access to the former memory
/// is under way.
[[nodiscard]] int ReregisterMemory(const Daemon& daemon, const MemoryRequest& request,
                                   MemoryRegistration& registration);

/// Ends a registration. After it returns 0, or EIO because the daemon is gone, the daemon no longer
/// accesses the memory, and pages that no other region covers are private again. After any other
/// error the registration stays.
int DeregisterMemory(const Daemon& daemon, MemoryRegistration& registration);

/// Overrides the environment variable UROCE_MR, which is otherwise read at the first registration.
void SetPolicy(MrPolicy policy);

// ---- Advice ----

/// Returns the kernel's result: 0 or a negative errno. Costs two loads for memory that no region
/// was ever in. Dropped pages read as zeros, for the daemon too. Advice for a mapping is also given
/// to its kept mapping, and so holds in a fork child and after the registration. Async-signal-safe.
/// Errors besides the kernel's: EAGAIN while another thread forks.
[[nodiscard]] int64_t Advise(uint64_t address, uint64_t length, int advice);

}  // namespace uroce::memory
