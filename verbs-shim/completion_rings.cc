// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/completion_rings.h"

namespace uroce::shim {
namespace {

struct ResizeReply {
  uroce_reply header;
  uroce_resize_cq_reply body;
  uroce_cq_ring rings[UROCE_MAX_WORKERS];
};
static_assert(offsetof(ResizeReply, rings) == sizeof(uroce_reply) + sizeof(uroce_resize_cq_reply));

rings::CqeRingLayout LayoutOf(const DaemonConnection& connection, const uroce_cq_ring& ring) {
  uint8_t* arena = connection.arena();
  return {reinterpret_cast<uroce_cq_ring_page*>(arena + ring.page_offset),
          reinterpret_cast<uroce_cqe*>(arena + ring.cqe_offset), ring.depth};
}

bool IsSane(DaemonConnection& connection, const ResizeReply& reply) {
  const uint64_t bytes =
      offsetof(ResizeReply, rings) + uint64_t{reply.body.ring_count} * sizeof(uroce_cq_ring);
  if (reply.body.ring_count > connection.worker_count() || reply.header.size != bytes) return false;
  for (uint32_t i = 0; i < reply.body.ring_count; ++i) {
    if (!IsSane(connection, reply.rings[i])) return false;
  }
  return true;
}

}  // namespace

bool IsSane(DaemonConnection& connection, const uroce_cq_ring& ring) {
  return ring.worker < connection.worker_count() && ring.depth != 0 &&
         (ring.depth & (ring.depth - 1)) == 0 &&
         connection.Reach(ring.page_offset, sizeof(uroce_cq_ring_page)) &&
         connection.Reach(ring.cqe_offset, uint64_t{ring.depth} * sizeof(uroce_cqe));
}

void AddRing(CompletionQueue& cq, const uroce_cq_ring& ring) {
  const SpinGuard guard(cq.lock);
  if (!cq.rings.Has(ring.worker)) cq.rings.Install(ring.worker, LayoutOf(*cq.connection, ring));
}

// The daemon moves waiting completions while nobody polls: pollers wait for its answer. A queue
// pair that is made meanwhile could bring a ring of the old size, so none is made.
int ResizeCq(CompletionQueue& cq, int cqe) {
  DaemonConnection& connection = *cq.connection;
  if (!connection.is_live()) return EIO;
  if (cqe < 1 || static_cast<uint32_t>(cqe) > Ours(cq.verbs.context)->device->info.max_cqe) {
    return EINVAL;
  }
  RequestOf<uroce_resize_cq> request = {{UROCE_RESIZE_CQ, 0},
                                        {cq.verbs.handle, static_cast<uint32_t>(cqe)}};
  ResizeReply reply;
  const MutexLock lock(connection.queue_pair_mutex());
  const SpinGuard guard(cq.lock);
  const int error = connection.Command(&request, sizeof(request),
                                       {&reply, offsetof(ResizeReply, rings), sizeof(reply)});
  if (error != 0) return error;
  if (!IsSane(connection, reply)) return EIO;
  for (uint32_t i = 0; i < reply.body.ring_count; ++i) {
    cq.rings.Install(reply.rings[i].worker, LayoutOf(connection, reply.rings[i]));
  }
  cq.verbs.cqe = static_cast<int>(reply.body.cqe);
  return 0;
}

}  // namespace uroce::shim
