// SPDX-License-Identifier: Apache-2.0
// The rings of a completion queue, as the daemon's replies name them.
#pragma once

#include <stdint.h>

#include "verbs-shim/objects.h"

namespace uroce::shim {

/// Whether [offset, offset + size_bytes) lies in the arena and begins with a cache line, as what is
/// touched by atomic instructions must.
inline bool IsInArena(uint64_t offset, uint64_t size_bytes) {
  return offset % UROCE_LINE == 0 && offset <= UROCE_ARENA_BYTES &&
         size_bytes <= UROCE_ARENA_BYTES - offset;
}

/// Whether a slot of a receive queue has room for `max_sge` entries.
inline bool HoldsReceive(uint32_t slot_bytes, uint32_t max_sge) {
  return slot_bytes >= sizeof(uroce_recv_wqe) + max_sge * sizeof(uroce_sge);
}

/// Whether a ring can be believed enough to touch what it points to.
bool IsSane(const DaemonConnection& connection, const uroce_cq_ring& ring);

/// Polls `ring` too from now on, unless its worker's ring is known: queue pairs of one worker share
/// it. The caller holds the connection's queue_pair_mutex.
void AddRing(CompletionQueue& cq, const uroce_cq_ring& ring);

/// Gives the queue room for `cqe` completions or more; what waits is kept. Returns an errno: EINVAL
/// for more than waits or a count that the device has not.
int ResizeCq(CompletionQueue& cq, int cqe);

}  // namespace uroce::shim
