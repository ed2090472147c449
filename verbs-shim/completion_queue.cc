// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/completion_queue.h"

#include <unistd.h>

#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

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

void TakeNewRings(CompletionQueue& cq) {
  DaemonConnection& connection = *cq.connection;
  const uint32_t depth = rings::LoadRelaxed(cq.page->depth.value);
  for (uint32_t worker = 0; worker < connection.worker_count(); ++worker) {
    const uint64_t offset = rings::LoadRelaxed(cq.page->ring_offsets[worker]);
    if (offset == 0 || cq.rings.Has(worker)) continue;
    const uroce_cq_ring ring = {worker, depth, offset, offset + sizeof(uroce_cq_ring_page)};
    if (IsSane(connection, ring)) cq.rings.Install(worker, LayoutOf(connection, ring));
  }
}

// The daemon moves waiting completions while no thread polls: pollers wait for its answer. A queue
// pair that is made meanwhile could bring a ring of the old size, so none is made.
int ResizeCq(CompletionQueue& cq, int cqe) {
  DaemonConnection& connection = *cq.connection;
  if (!connection.is_live()) return EIO;
  if (cqe < 1 || static_cast<uint32_t>(cqe) > Ours(cq.verbs.context)->device->info.max_cqe) {
    return EINVAL;
  }
  // Rings have up to twice the entries that were asked for, and share no page. A ring out of reach
  // would be the end of this queue: the daemon has given up the old one.
  constexpr uint64_t kPage = 1 << 20;
  const uint64_t ring_bytes = 2 * static_cast<uint64_t>(cqe) * sizeof(uroce_cqe) + kPage;
  if (!connection.CanReachMore(connection.worker_count() * ring_bytes)) return ENOMEM;
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

// ---- Channels and queues ----

void WaitForAcknowledgement(pthread_mutex_t& mutex, pthread_cond_t& condition,
                            const uint32_t* completed, uint32_t given) {
  const MutexLock lock(mutex);
  while (*completed != given) pthread_cond_wait(&condition, &mutex);
}

namespace {

UROCE_REAL(ibv_create_comp_channel, "IBVERBS_1.0");
UROCE_REAL(ibv_destroy_comp_channel, "IBVERBS_1.0");
UROCE_REAL(ibv_create_cq, "IBVERBS_1.1");
UROCE_REAL(ibv_destroy_cq, "IBVERBS_1.1");
UROCE_REAL(ibv_resize_cq, "IBVERBS_1.1");

ibv_comp_channel* CreateChannel(Context& context) {
  auto* channel = Make<Channel>();
  if (channel == nullptr) return FailWith(ENOMEM);
  int fds[1];
  const int error =
      MakeHandle(*context.connection, UROCE_CREATE_CHANNEL, uroce_handle{context.handle, 0},
                 &channel->handle, fds, UROCE_DESTROY_CHANNEL);
  if (error != 0) {
    Free(channel);
    return FailWith(error);
  }
  channel->verbs.context = &context.verbs.context;
  channel->verbs.fd = fds[0];
  return &channel->verbs;
}

int DestroyChannel(Channel& channel) {
  ibv_context* context = channel.verbs.context;
  const CancelOff cancel_off;
  const MutexLock lock(context->mutex);
  if (channel.verbs.refcnt != 0) return EBUSY;
  const int error = EndObject(*Ours(context)->connection, UROCE_DESTROY_CHANNEL, channel.handle);
  if (error != 0) return error;
  close(channel.verbs.fd);
  channel.events.Free();
  Free(&channel);
  return 0;
}

constexpr uint64_t kTimes =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

void FillCq(CompletionQueue& cq, Context& context, const ibv_cq_init_attr_ex& wanted,
            const uroce_create_cq_reply& made) {
  DaemonConnection& connection = *context.connection;
  cq.connection = &connection;
  cq.page = reinterpret_cast<uroce_cq_page*>(connection.arena() + made.page_offset);
  cq.rings = rings::CqeRings(cq.ring_memory);
  ibv_cq_ex& verbs = cq.verbs;
  verbs.context = &context.verbs.context;
  verbs.channel = wanted.channel;
  verbs.cq_context = wanted.cq_context;
  verbs.handle = made.handle;
  verbs.cqe = static_cast<int>(made.cqe);
  FillCqEx(verbs);
}

int MakeCq(CompletionQueue& cq, Context& context, const ibv_cq_init_attr_ex& wanted) {
  int error = 0;
  if (wanted.channel != nullptr) error = CheckNamed(*context.connection, wanted.channel->context);
  if (error != 0) return error;
  const uroce_create_cq request = {
      context.handle,
      wanted.cqe,
      cq.events.number,
      wanted.channel != nullptr ? Ours(wanted.channel)->handle : UROCE_NONE,
      wanted.comp_vector,
      (wanted.wc_flags & kTimes) != 0,
      0};
  uroce_create_cq_reply reply;
  error = Call(*context.connection, UROCE_CREATE_CQ, request, &reply);
  if (error != 0) return error;
  if (!context.connection->Reach(reply.page_offset, sizeof(uroce_cq_page))) {
    uroce_destroy_cq_reply ended;
    (void)EndObject(*context.connection, UROCE_DESTROY_CQ, reply.handle, &ended);
    return EIO;
  }
  FillCq(cq, context, wanted, reply);
  return 0;
}

CompletionQueue* AllocateCq(const DaemonConnection& connection) {
  auto* cq = Make<CompletionQueue>();
  if (cq == nullptr) return nullptr;
  cq->ring_memory = static_cast<rings::WorkerCqeRing*>(
      calloc(connection.worker_count(), sizeof(rings::WorkerCqeRing)));
  if (cq->ring_memory != nullptr) return cq;
  Free(cq);
  return nullptr;
}

void FreeCq(CompletionQueue* cq) {
  free(cq->ring_memory);
  Free(cq);
}

CompletionQueue* CreateCq(Context& context, const ibv_cq_init_attr_ex& wanted) {
  if (wanted.cqe == 0 || wanted.cqe > context.device->info.max_cqe ||
      wanted.comp_vector >= static_cast<uint32_t>(context.verbs.context.num_comp_vectors)) {
    return FailWith(EINVAL);
  }
  CompletionQueue* cq = AllocateCq(*context.connection);
  if (cq == nullptr) return FailWith(ENOMEM);
  cq->verbs.mutex = PTHREAD_MUTEX_INITIALIZER;
  cq->verbs.cond = PTHREAD_COND_INITIALIZER;
  // The lock also keeps the channel alive while the daemon ties the CQ to it.
  const MutexLock lock(context.verbs.context.mutex);
  EventTable& events = context.connection->events();
  events.Add(cq->events, EventKind::kCq, cq);
  const int error = MakeCq(*cq, context, wanted);
  if (error != 0) {
    events.Remove(cq->events);
    FreeCq(cq);
    return FailWith(error);
  }
  if (wanted.channel != nullptr) ++wanted.channel->refcnt;
  return cq;
}

/// Drops the unread events of `cq`, which has ended.
void DropUnread(CompletionQueue& cq, const uroce_destroy_cq_reply& reply) {
  ibv_comp_channel* channel = cq.verbs.channel;
  if (channel != nullptr && reply.comp_events_reported != cq.events.completion_events) {
    Ours(channel)->events.DropEnded(cq.connection->events(), channel->fd);
  }
  DropUnread(*Ours(cq.verbs.context), cq.events, reply.async_events_reported);
}

int DestroyCq(CompletionQueue& cq) {
  uroce_destroy_cq_reply reply;
  const int error = EndObject(*cq.connection, UROCE_DESTROY_CQ, cq.verbs.handle, &reply);
  if (error != 0) return error;
  cq.connection->events().Remove(cq.events);
  if (cq.connection->is_live()) {
    DropUnread(cq, reply);
    WaitForAcknowledgement(cq.verbs.mutex, cq.verbs.cond, &cq.verbs.comp_events_completed,
                           cq.events.completion_events);
    WaitForAcknowledgement(cq.verbs.mutex, cq.verbs.cond, &cq.verbs.async_events_completed,
                           cq.events.async_events);
  }
  if (cq.verbs.channel != nullptr) {
    const MutexLock lock(cq.verbs.context->mutex);
    --cq.verbs.channel->refcnt;
  }
  FreeCq(&cq);
  return 0;
}

}  // namespace

ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* attributes) {
  constexpr uint64_t kServedFlags =
      IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP |
      IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL | IBV_WC_EX_WITH_DLID_PATH_BITS | kTimes;
  if ((attributes->wc_flags & ~kServedFlags) != 0) return FailWith(EOPNOTSUPP);
  constexpr uint32_t kKnown = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  if ((attributes->comp_mask & ~kKnown) != 0) return FailWith(EOPNOTSUPP);
  // A parent domain's thread domain and allocators have no effect here.
  const bool has_domain = (attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0;
  if (has_domain &&
      (attributes->parent_domain == nullptr || attributes->parent_domain->context != context)) {
    return FailWith(EINVAL);
  }
  const bool has_flags = (attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  // SINGLE_THREADED only permits less locking; overruns are never ignored.
  if (has_flags && (attributes->flags & ~uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}) != 0) {
    return FailWith(EOPNOTSUPP);
  }
  CompletionQueue* cq = CreateCq(*Ours(context), *attributes);
  return cq == nullptr ? nullptr : &cq->verbs;
}

// ibv_modify_cq(3). Unless both a count and a period are given, events come at once.
int ModifyCq(ibv_cq* cq, ibv_modify_cq_attr* attributes) {
  if (attributes->attr_mask != IBV_CQ_ATTR_MODERATE) return EINVAL;
  const ibv_moderate_cq& moderate = attributes->moderate;
  return Call(*Ours(cq)->connection, UROCE_MODIFY_CQ,
              uroce_modify_cq{cq->handle, moderate.cq_count, moderate.cq_period});
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

UROCE_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return IsOurs(context) ? CreateChannel(*Ours(context))
                         : real_ibv_create_comp_channel.CallOr(nullptr, context);
}

UROCE_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return IsOurs(channel->context) ? DestroyChannel(*Ours(channel))
                                  : real_ibv_destroy_comp_channel.CallOr(ENOSYS, channel);
}

UROCE_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context,
                                   ibv_comp_channel* channel, int comp_vector) {
  if (!IsOurs(context)) {
    return real_ibv_create_cq.CallOr(nullptr, context, cqe, cq_context, channel, comp_vector);
  }
  if (cqe < 1 || comp_vector < 0) return FailWith(EINVAL);
  ibv_cq_init_attr_ex wanted = {};
  wanted.cqe = static_cast<uint32_t>(cqe);
  wanted.cq_context = cq_context;
  wanted.channel = channel;
  wanted.comp_vector = static_cast<uint32_t>(comp_vector);
  CompletionQueue* cq = CreateCq(*Ours(context), wanted);
  return cq == nullptr ? nullptr : VerbsOf(cq);
}

UROCE_EXPORT int ibv_destroy_cq(ibv_cq* cq) {
  return IsOurs(cq->context) ? DestroyCq(*Ours(cq)) : real_ibv_destroy_cq.CallOr(ENOSYS, cq);
}

UROCE_EXPORT int ibv_resize_cq(ibv_cq* cq, int cqe) {
  return IsOurs(cq->context) ? ResizeCq(*Ours(cq), cqe)
                             : real_ibv_resize_cq.CallOr(ENOSYS, cq, cqe);
}

}  // extern "C"
