// SPDX-License-Identifier: Apache-2.0
// Makes and ends completion channels and completion queues. A queue is polled over the rings of all
// workers that complete on it: the daemon names them when queue pairs are made, again in
// ibv_resize_cq, and always in the queue's page. A resize that makes the queue smaller waits for
// datagrams that were posted before.
#pragma once

#include <stdint.h>

#include "verbs-shim/objects.h"

namespace uroce::shim {

/// Whether a slot of a receive queue has room for `max_sge` entries.
inline bool HoldsReceive(uint32_t slot_bytes, uint32_t max_sge) {
  return slot_bytes >= sizeof(uroce_recv_wqe) + max_sge * sizeof(uroce_sge);
}

/// Whether a ring's addresses and sizes are valid, so that the shim may access its memory.
bool IsSane(DaemonConnection& connection, const uroce_cq_ring& ring);

/// Makes the CQ poll all rings that its page names, which may be more than replies have named. The
/// caller holds cq.lock.
void TakeNewRings(CompletionQueue& cq);
/// Whether there are such rings. The caller holds cq.lock.
inline bool HasNewRings(const CompletionQueue& cq) {
  return rings::LoadAcquire(cq.page->rings.value) != cq.rings.count();
}
/// Makes the CQ poll `ring` too, unless it has the ring of that worker: queue pairs of one worker
/// share a ring. The caller holds the connection's queue_pair_mutex.
void AddRing(CompletionQueue& cq, const uroce_cq_ring& ring);

/// Gives the queue room for `cqe` completions or more, and keeps those that wait. Returns 0 or an
/// errno: EINVAL when more completions wait, or when the device does not allow the count.
int ResizeCq(CompletionQueue& cq, int cqe);

}  // namespace uroce::shim
