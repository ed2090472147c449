// SPDX-License-Identifier: Apache-2.0
// A memory region that this library made.
#pragma once

#include "verbs-shim/memory/memory.h"
#include "verbs-shim/objects.h"

namespace uroce::shim {

struct MemoryRegion {
  ibv_mr verbs;
  memory::MemoryRequest request;  ///< Its present state: ibv_rereg_mr changes parts of it.
  memory::MemoryRegistration registration;
  uint32_t* users_of_memory;     ///< Of its device memory, decremented at the end; or null.
  MemoryRegion* next_on_demand;  ///< In the list of regions with on-demand paging.
  bool is_imported;              ///< Only its maker may change or end it.
  bool is_null;                  ///< Of no memory: it cannot become another.
};

inline MemoryRegion* Ours(ibv_mr* mr) { return reinterpret_cast<MemoryRegion*>(mr); }

/// Makes a region of `request`, whose pd must be that of `pd`; `addr` becomes ibv_mr::addr. Null
/// with errno on failure.
ibv_mr* RegisterRegion(ibv_pd* pd, void* addr, const memory::MemoryRequest& request);

}  // namespace uroce::shim
