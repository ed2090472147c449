// SPDX-License-Identifier: Apache-2.0
// Memory regions and memory windows, and how the registration of memory sends its requests to the
// daemon. Return codes: docs/protocol/verbs-semantics.md, section 5.
#pragma once

#include "verbs-shim/daemon_connection.h"
#include "verbs-shim/dma_buf.h"
#include "verbs-shim/memory/daemon.h"
#include "verbs-shim/memory/memory.h"
#include "verbs-shim/objects.h"

namespace uroce::memory {

// ---- The daemon of a connection, as the code that registers memory uses it ----

/// Valid as long as the connection. Cheap: callers make one for each call.
Daemon DaemonOf(shim::DaemonConnection& connection);

/// Lends a file by which programs share an XRC domain; the caller keeps `fd`. `*file` is for one
/// UROCE_OPEN_XRCD. Returns 0 or a positive errno. Waits for registrations, which use the same
/// socket.
[[nodiscard]] int LendXrcFile(shim::DaemonConnection& connection, int fd, uint32_t* file);

}  // namespace uroce::memory

namespace uroce::shim {

// ---- Regions that this library made ----

struct MemoryRegion {
  ibv_mr verbs;
  memory::MemoryRequest request;  ///< Its present state: ibv_rereg_mr changes parts of it.
  memory::MemoryRegistration registration;
  uint32_t* users_of_memory;     ///< Of its device memory, decremented at the end; or null.
  gpu::DmaBuf* dma_buf;          ///< Mapped for the region alone; or null.
  MemoryRegion* next_on_demand;  ///< In the list of regions with on-demand paging.
  bool is_imported;              ///< Only its maker may change or end it.
  bool is_null;                  ///< Of no memory: it cannot become another.
};

inline MemoryRegion* Ours(ibv_mr* mr) { return reinterpret_cast<MemoryRegion*>(mr); }

/// Makes a region of `request`, whose pd must be that of `pd`; `addr` becomes ibv_mr::addr. Null
/// with errno on failure.
ibv_mr* RegisterRegion(ibv_pd* pd, void* addr, const memory::MemoryRequest& request);

}  // namespace uroce::shim
