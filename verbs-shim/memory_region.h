// SPDX-License-Identifier: Apache-2.0
// A memory region of this library.
#pragma once

#include "verbs-shim/memory/memory.h"
#include "verbs-shim/objects.h"

namespace uroce::shim {

struct MemoryRegion {
  ibv_mr verbs;
  memory::MemoryRequest request;  ///< What it is now: ibv_rereg_mr changes parts of it.
  memory::MemoryRegistration registration;
  uint32_t* users_of_memory;     ///< Of device memory: counted down when the region goes. Or null.
  MemoryRegion* next_on_demand;  ///< In the list of those with on-demand paging.
  bool is_imported;              ///< Its maker changes and ends it.
  bool is_null;                  ///< Of no memory: it cannot become another.
};

inline MemoryRegion* Ours(ibv_mr* mr) { return reinterpret_cast<MemoryRegion*>(mr); }

/// Makes a region of `request`, whose pd is that of `pd`; `addr` is what ibv_mr says. Null with
/// errno.
ibv_mr* RegisterRegion(ibv_pd* pd, void* addr, const memory::MemoryRequest& request);

}  // namespace uroce::shim
