// SPDX-License-Identifier: Apache-2.0
// Shared receive queues. Posting rings no doorbell: the worker looks at them when a message comes.
// A slot is free once the worker has copied its entry: the daemon says so in the queue's page,
// since completions come in any order.
#include "verbs-shim/completion_queue.h"
#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {
namespace {

UROCE_REAL(ibv_create_srq, "IBVERBS_1.1");
UROCE_REAL(ibv_modify_srq, "IBVERBS_1.1");
UROCE_REAL(ibv_query_srq, "IBVERBS_1.1");
UROCE_REAL(ibv_destroy_srq, "IBVERBS_1.1");

/// Whether a reply's addresses and sizes are valid, so that the shim may access that memory.
bool IsSane(DaemonConnection& connection, const uroce_srq_layout& layout) {
  const bool is_power = layout.depth != 0 && (layout.depth & (layout.depth - 1)) == 0;
  return is_power && layout.max_wr <= layout.depth && layout.max_sge <= UROCE_MAX_SGE &&
         HoldsReceive(layout.slot_bytes, layout.max_sge) &&
         connection.Reach(layout.page_offset, sizeof(uroce_srq_page)) &&
         connection.Reach(layout.slots_offset, uint64_t{layout.depth} * layout.slot_bytes);
}

void FillRing(SharedReceiveQueue& srq, const uroce_srq_layout& layout) {
  uint8_t* arena = srq.connection->arena();
  srq.page = reinterpret_cast<uroce_srq_page*>(arena + layout.page_offset);
  srq.ring = rings::WorkQueueProducer(
      {arena + layout.slots_offset, layout.depth, layout.slot_bytes}, &srq.page->produced);
  srq.max_requests = layout.max_wr;
  srq.max_sge = layout.max_sge;
}

/// The parameters that both ways to make a shared receive queue have.
struct Wish {
  ibv_pd* pd;
  ibv_xrcd* xrcd;  ///< Of an XRC SRQ; otherwise null, like `cq`.
  ibv_cq* cq;
};

uroce_create_srq RequestFor(const Wish& wish, const ibv_srq_attr& attr) {
  uroce_create_srq request = {};
  request.pd = wish.pd->handle;
  request.max_wr = attr.max_wr;
  request.max_sge = attr.max_sge;
  request.srq_limit = attr.srq_limit;
  request.srq_type = IBV_SRQT_BASIC;
  if (wish.xrcd == nullptr) return request;
  request.srq_type = IBV_SRQT_XRC;
  request.xrcd = Ours(wish.xrcd)->handle;
  request.cq = wish.cq->handle;
  return request;
}

bool IsSane(DaemonConnection& connection, const Wish& wish, const uroce_create_srq_reply& made) {
  return IsSane(connection, made.layout) && (wish.cq == nullptr || IsSane(connection, made.ring));
}

int Make(SharedReceiveQueue& srq, const Wish& wish, const ibv_srq_init_attr& attributes) {
  DaemonConnection& connection = *Ours(wish.pd->context)->connection;
  int error = wish.xrcd != nullptr ? CheckNamed(connection, wish.xrcd->context) : 0;
  if (error == 0 && wish.cq != nullptr) error = CheckNamed(connection, wish.cq->context);
  if (error != 0) return error;
  uroce_create_srq request = RequestFor(wish, attributes.attr);
  request.user_handle = srq.events.number;
  uroce_create_srq_reply made;
  // The reply brings the ring of the SRQ's worker, which the CQ may not have yet.
  const MutexLock lock(connection.queue_pair_mutex());
  error = Call(connection, UROCE_CREATE_SRQ, request, &made);
  if (error != 0) return error;
  if (!IsSane(connection, wish, made)) {
    uroce_destroy_srq_reply ended;
    (void)EndObject(connection, UROCE_DESTROY_SRQ, made.handle, &ended);
    return EIO;
  }
  srq.connection = &connection;
  srq.number = made.srqn;
  FillRing(srq, made.layout);
  if (wish.cq != nullptr) {
    srq.cq = Ours(wish.cq);
    AddRing(*srq.cq, made.ring);
  }
  srq.verbs.context = wish.pd->context;
  srq.verbs.srq_context = attributes.srq_context;
  srq.verbs.pd = wish.pd;
  srq.verbs.handle = made.handle;
  srq.verbs.mutex = PTHREAD_MUTEX_INITIALIZER;
  srq.verbs.cond = PTHREAD_COND_INITIALIZER;
  return 0;
}

ibv_srq* Create(const Wish& wish, ibv_srq_init_attr& attributes) {
  auto* srq = uroce::shim::Make<SharedReceiveQueue>();
  if (srq == nullptr) return FailWith(ENOMEM);
  EventTable& events = Ours(wish.pd->context)->connection->events();
  events.Add(srq->events, EventKind::kSharedReceiveQueue, srq);
  const int error = Make(*srq, wish, attributes);
  if (error != 0) {
    events.Remove(srq->events);
    Free(srq);
    return FailWith(error);
  }
  attributes.attr.max_wr = srq->max_requests;
  attributes.attr.max_sge = srq->max_sge;
  return &srq->verbs;
}

/// The lock keeps others from posting: a resize moves waiting requests to another ring.
int Modify(SharedReceiveQueue& srq, const ibv_srq_attr& attributes, int mask) {
  const SpinGuard guard(srq.lock);
  const uroce_modify_srq request = {srq.verbs.handle, static_cast<uint32_t>(mask),
                                    attributes.max_wr, attributes.srq_limit};
  // As for ResizeCq: twice the requests, and pages that it shares with no other ring.
  constexpr uint64_t kSlot = 2 * (sizeof(uroce_recv_wqe) + UROCE_MAX_SGE * sizeof(uroce_sge));
  constexpr uint64_t kPage = 1 << 20;
  const bool resizes = (mask & IBV_SRQ_MAX_WR) != 0;
  const uint64_t most_bytes = resizes ? 2 * uint64_t{attributes.max_wr} * kSlot + kPage : 0;
  if (!srq.connection->CanReachMore(most_bytes)) return ENOMEM;
  uroce_srq_layout layout;
  const int error = Call(*srq.connection, UROCE_MODIFY_SRQ, request, &layout);
  if (error != 0 || !resizes) return error;
  if (!IsSane(*srq.connection, layout)) return EIO;
  FillRing(srq, layout);
  return 0;
}

int Query(SharedReceiveQueue& srq, ibv_srq_attr& attributes) {
  uroce_query_srq_reply reply;
  const int error =
      Call(*srq.connection, UROCE_QUERY_SRQ, uroce_handle{srq.verbs.handle, 0}, &reply);
  if (error == 0) attributes = {reply.max_wr, reply.max_sge, reply.srq_limit};
  return error;
}

/// Ends the SRQ at the daemon. Afterwards no completion of it is polled.
int Withdraw(SharedReceiveQueue& srq, uroce_destroy_srq_reply* reply) {
  const MutexLock lock(srq.connection->queue_pair_mutex());
  const int error = EndObject(*srq.connection, UROCE_DESTROY_SRQ, srq.verbs.handle, reply);
  if (error == 0 && srq.cq != nullptr) ForgetCompletions(srq);
  return error;
}

int Destroy(SharedReceiveQueue& srq) {
  DaemonConnection& connection = *srq.connection;
  uroce_destroy_srq_reply reply;
  const int error = Withdraw(srq, &reply);
  if (error != 0) return error;
  connection.events().Remove(srq.events);
  if (connection.is_live()) {
    DropUnread(*Ours(srq.verbs.context), srq.events, reply.async_events_reported);
    WaitForAcknowledgement(srq.verbs.mutex, srq.verbs.cond, &srq.verbs.events_completed,
                           srq.events.async_events);
  }
  Free(&srq);
  return 0;
}

int Post(SharedReceiveQueue& srq, const ibv_recv_wr& wr) {
  const uint32_t waiting = srq.ring.index() - rings::LoadAcquire(srq.page->consumed.value);
  if (waiting >= srq.max_requests) return ENOMEM;
  return WriteReceive(srq.ring, srq.max_sge, wr);
}

}  // namespace

int PostSharedReceive(ibv_srq* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  SharedReceiveQueue& srq = *Ours(base);
  int error = srq.connection->state() == ConnectionState::kForked ? EIO : 0;
  if (error != 0) {
    *bad_wr = wr;
    return error;
  }
  const SpinGuard guard(srq.lock);
  for (; wr != nullptr; wr = wr->next) {
    error = Post(srq, *wr);
    if (error == 0) continue;
    *bad_wr = wr;
    break;
  }
  srq.ring.Publish();
  return error;
}

ibv_srq* CreateSrqEx(ibv_context*, ibv_srq_init_attr_ex* attributes) {
  constexpr uint32_t kBasic = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  constexpr uint32_t kXrc = kBasic | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  const uint32_t mask = attributes->comp_mask;
  const bool has_type = (mask & IBV_SRQ_INIT_ATTR_TYPE) != 0;
  const bool is_xrc = has_type && attributes->srq_type == IBV_SRQT_XRC;
  if (has_type && !is_xrc && attributes->srq_type != IBV_SRQT_BASIC) return FailWith(EOPNOTSUPP);
  if ((mask & ~(is_xrc ? kXrc : kBasic)) != 0) return FailWith(EOPNOTSUPP);
  if ((mask & IBV_SRQ_INIT_ATTR_PD) == 0) return FailWith(EINVAL);
  if (is_xrc && mask != kXrc) return FailWith(EINVAL);
  Wish wish = {attributes->pd, nullptr, nullptr};
  if (is_xrc) wish = {attributes->pd, attributes->xrcd, attributes->cq};
  if (wish.pd == nullptr || (is_xrc && (wish.xrcd == nullptr || wish.cq == nullptr))) {
    return FailWith(EINVAL);
  }
  ibv_srq_init_attr plain = {attributes->srq_context, attributes->attr};
  ibv_srq* made = Create(wish, plain);
  attributes->attr = plain.attr;
  return made;
}

int GetSrqNum(ibv_srq* srq, uint32_t* number) {
  if (Ours(srq)->cq == nullptr) return EINVAL;  // Only an XRC SRQ has one.
  *number = Ours(srq)->number;
  return 0;
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

UROCE_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  return IsOurs(pd->context) ? Create({pd, nullptr, nullptr}, *attributes)
                             : real_ibv_create_srq.CallOr(nullptr, pd, attributes);
}

UROCE_EXPORT int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask) {
  return IsOurs(srq->context) ? Modify(*Ours(srq), *attributes, mask)
                              : real_ibv_modify_srq.CallOr(ENOSYS, srq, attributes, mask);
}

UROCE_EXPORT int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attributes) {
  return IsOurs(srq->context) ? Query(*Ours(srq), *attributes)
                              : real_ibv_query_srq.CallOr(ENOSYS, srq, attributes);
}

UROCE_EXPORT int ibv_destroy_srq(ibv_srq* srq) {
  return IsOurs(srq->context) ? Destroy(*Ours(srq)) : real_ibv_destroy_srq.CallOr(ENOSYS, srq);
}

}  // extern "C"
