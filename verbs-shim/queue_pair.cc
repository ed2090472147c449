// SPDX-License-Identifier: Apache-2.0
// Makes, changes and ends queue pairs, and attaches them to multicast groups. The daemon decides
// which change is legal.
#include <string.h>

#include <initializer_list>

#include "verbs-shim/completion_queue.h"
#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {

namespace {

UROCE_REAL(ibv_create_qp, "IBVERBS_1.1");
UROCE_REAL(ibv_modify_qp, "IBVERBS_1.1");
UROCE_REAL(ibv_query_qp, "IBVERBS_1.1");
UROCE_REAL(ibv_destroy_qp, "IBVERBS_1.1");
UROCE_REAL(ibv_qp_to_qp_ex, "IBVERBS_1.6");
UROCE_REAL(ibv_query_qp_data_in_order, "IBVERBS_1.14");

/// The parameters that both ways to make a queue pair have.
struct Wish {
  ibv_pd* pd;
  void* qp_context;
  ibv_cq* send_cq;
  ibv_cq* recv_cq;
  ibv_srq* srq;  ///< May be null.
  ibv_qp_type type;
  bool signal_all;
  bool wants_extended;
  ibv_qp_cap* cap;  ///< Set to what was granted.
};

bool IsDepth(uint32_t depth) { return (depth & (depth - 1)) == 0; }

bool HoldsSend(uint32_t slot_bytes, const uroce_qp_cap& cap) {
  const uint64_t sge_bytes = cap.max_send_sge * sizeof(uroce_sge);
  const uint64_t tail = sge_bytes > cap.max_inline_data ? sge_bytes : cap.max_inline_data;
  return slot_bytes >= sizeof(uroce_send_wqe) + tail;
}

/// Whether the slots are large enough for what the program may post.
bool HaveRoom(const uroce_create_qp_reply& made) {
  const uroce_qp_cap& cap = made.cap;
  return cap.max_send_sge <= UROCE_MAX_SGE && cap.max_recv_sge <= UROCE_MAX_SGE &&
         cap.max_inline_data <= UROCE_MAX_INLINE && cap.max_send_wr <= made.sq_depth &&
         cap.max_recv_wr <= made.rq_depth &&
         (made.sq_depth == 0 || HoldsSend(made.sq_slot_bytes, cap)) &&
         (made.rq_depth == 0 || HoldsReceive(made.rq_slot_bytes, cap.max_recv_sge));
}

/// Whether a reply's addresses and sizes are valid, so that the shim may access that memory.
bool IsSane(DaemonConnection& connection, const uroce_create_qp_reply& made) {
  return made.worker < connection.worker_count() && made.doorbell_slot < UROCE_DOORBELL_SLOTS &&
         IsDepth(made.sq_depth) && IsDepth(made.rq_depth) && HaveRoom(made) &&
         connection.Reach(made.page_offset, sizeof(uroce_qp_page)) &&
         connection.Reach(made.sq_offset, uint64_t{made.sq_depth} * made.sq_slot_bytes) &&
         connection.Reach(made.rq_offset, uint64_t{made.rq_depth} * made.rq_slot_bytes) &&
         IsSane(connection, made.send_ring) && IsSane(connection, made.receive_ring);
}

void FillWorkQueue(WorkQueue& queue, const rings::WorkQueueLayout& layout, uroce_line32* produced,
                   uint32_t max_requests, uint32_t max_sge) {
  queue.ring = rings::WorkQueueProducer(layout, produced);
  queue.retired = queue.ring.index();
  queue.max_requests = max_requests;
  queue.max_sge = max_sge;
}

void FillRings(QueuePair& queue_pair, const uroce_create_qp_reply& made) {
  DaemonConnection& connection = *queue_pair.connection;
  uint8_t* arena = connection.arena();
  queue_pair.page = reinterpret_cast<uroce_qp_page*>(arena + made.page_offset);
  queue_pair.doorbell_slot = made.doorbell_slot;
  queue_pair.max_inline_bytes = made.cap.max_inline_data;
  FillWorkQueue(queue_pair.send, {arena + made.sq_offset, made.sq_depth, made.sq_slot_bytes},
                &queue_pair.page->sq_produced, made.cap.max_send_wr, made.cap.max_send_sge);
  FillWorkQueue(queue_pair.receive, {arena + made.rq_offset, made.rq_depth, made.rq_slot_bytes},
                &queue_pair.page->rq_produced, made.cap.max_recv_wr, made.cap.max_recv_sge);
}

void FillVerbs(QueuePair& queue_pair, const Wish& wish, const uroce_create_qp_reply& made) {
  ibv_qp& verbs = queue_pair.verbs.qp_base;
  verbs.context = wish.pd->context;
  verbs.qp_context = wish.qp_context;
  verbs.pd = wish.pd;
  verbs.send_cq = wish.send_cq;
  verbs.recv_cq = wish.recv_cq;
  verbs.srq = wish.srq;
  verbs.handle = made.handle;
  verbs.qp_num = made.qp_num;
  verbs.state = IBV_QPS_RESET;
  verbs.qp_type = wish.type;
  verbs.mutex = PTHREAD_MUTEX_INITIALIZER;
  verbs.cond = PTHREAD_COND_INITIALIZER;
  FillQpEx(queue_pair.verbs);
}

/// Whether the daemon of `connection` knows all objects that the queue pair uses: 0 or an errno.
int CheckNamed(const DaemonConnection& connection, const Wish& wish) {
  int error = CheckNamed(connection, wish.send_cq->context);
  const bool receives = wish.type != IBV_QPT_XRC_SEND;
  if (error == 0 && receives) error = CheckNamed(connection, wish.recv_cq->context);
  if (error == 0 && wish.srq != nullptr) error = CheckNamed(connection, wish.srq->context);
  return error;
}

/// Makes the daemon's part of `queue_pair`, which is in the connection's table of events.
int MakeQueuePair(QueuePair& queue_pair, const Wish& wish) {
  DaemonConnection& connection = *Ours(wish.pd->context)->connection;
  int error = CheckNamed(connection, wish);
  if (error != 0) return error;
  uroce_create_qp request = {};
  request.pd = wish.pd->handle;
  request.qp_type = wish.type;
  request.send_cq = wish.send_cq->handle;
  // An XRC initiator has no receive queue, whatever the program asked for.
  const bool receives = wish.type != IBV_QPT_XRC_SEND;
  request.user_handle = queue_pair.events.number;
  request.recv_cq = receives ? wish.recv_cq->handle : UROCE_NONE;
  request.sq_sig_all = wish.signal_all ? 1 : 0;
  request.cap = ToAbi(*wish.cap);
  request.with_srq = wish.srq != nullptr ? 1 : 0;
  request.srq = wish.srq != nullptr ? wish.srq->handle : 0;
  uroce_create_qp_reply made;
  const MutexLock lock(connection.queue_pair_mutex());
  error = Call(connection, UROCE_CREATE_QP, request, &made);
  if (error != 0) return error;
  queue_pair.connection = &connection;
  queue_pair.signal_all = wish.signal_all;
  queue_pair.has_extended = wish.wants_extended;
  error = EIO;
  if (IsSane(connection, made)) {
    FillRings(queue_pair, made);
    FillVerbs(queue_pair, wish, made);
    AddRing(*Ours(wish.send_cq), made.send_ring);
    if (receives) AddRing(*Ours(wish.recv_cq), made.receive_ring);
    error = connection.queue_pairs().Add(made.handle, &queue_pair) ? 0 : ENOMEM;
  }
  if (error != 0) {
    uroce_destroy_qp_reply ended;
    (void)EndObject(connection, UROCE_DESTROY_QP, made.handle, &ended);
    return error;
  }
  queue_pair.cap = FromAbi(made.cap);
  *wish.cap = queue_pair.cap;
  return 0;
}

/// Calls of ibv_qp_ex that a queue pair of this type has (enum ibv_qp_create_send_ops_flags).
uint64_t ServedOps(ibv_qp_type type) {
  constexpr uint64_t kDatagrams = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr uint64_t kUnreliable = kDatagrams | IBV_QP_EX_WITH_RDMA_WRITE |
                                   IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV |
                                   IBV_QP_EX_WITH_BIND_MW;
  constexpr uint64_t kReliable = kUnreliable | IBV_QP_EX_WITH_RDMA_READ |
                                 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                                 IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE;
  if (type == IBV_QPT_UD) return kDatagrams;
  return type == IBV_QPT_UC ? kUnreliable : kReliable;
}

ibv_qp* Create(const Wish& wish) {
  if (wish.send_cq == nullptr) return FailWith(EINVAL);
  if (wish.recv_cq == nullptr && wish.type != IBV_QPT_XRC_SEND) return FailWith(EINVAL);
  auto* queue_pair = Make<QueuePair>();
  if (queue_pair == nullptr) return FailWith(ENOMEM);
  EventTable& events = Ours(wish.pd->context)->connection->events();
  events.Add(queue_pair->events, EventKind::kQueuePair, queue_pair);
  const int error = MakeQueuePair(*queue_pair, wish);
  if (error == 0) return VerbsOf(queue_pair);
  events.Remove(queue_pair->events);
  Free(queue_pair);
  return FailWith(error);
}

/// RESET drops posted requests: the worker skips to our index, and their completions never come.
void OnReset(QueuePair& queue_pair) {
  ForgetCompletions(queue_pair);
  for (WorkQueue* queue : {&queue_pair.send, &queue_pair.receive}) {
    const SpinGuard guard(queue->lock);
    rings::StoreRelease(queue->retired, queue->ring.index());
  }
}

/// Whether a change of attributes connects the queue pair, and it may move to another worker first.
bool IsPlaced(const QueuePair& queue_pair, const ibv_qp_attr& attr, int mask) {
  const ibv_qp& verbs = queue_pair.verbs.qp_base;
  constexpr int kConnects = IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN;
  return (mask & kConnects) == kConnects && attr.qp_state == IBV_QPS_RTR &&
         (verbs.qp_type == IBV_QPT_RC || verbs.qp_type == IBV_QPT_UC) && verbs.srq == nullptr &&
         queue_pair.connection->worker_count() > 1;
}

int Modify(QueuePair& queue_pair, const ibv_qp_attr& attr, int mask) {
  const uroce_modify_qp request = {queue_pair.verbs.qp_base.handle, ToAbi(attr, mask)};
  if (IsPlaced(queue_pair, attr, mask)) {
    // It may move to the worker of its peer. If it cannot, it stays where it is.
    uroce_place_qp_reply placed;
    (void)Call(*queue_pair.connection, UROCE_PLACE_QP, request, &placed);
  }
  uroce_modify_qp_reply reply;
  const int error = Call(*queue_pair.connection, UROCE_MODIFY_QP, request, &reply);
  if (error != 0) return error;
  if ((mask & IBV_QP_STATE) == 0) return 0;
  if (attr.qp_state == IBV_QPS_RESET) OnReset(queue_pair);
  queue_pair.verbs.qp_base.state = StateFromAbi(reply.qp_state);
  return 0;
}

int Query(QueuePair& queue_pair, ibv_qp_attr* attr, ibv_qp_init_attr* init) {
  uroce_qp_attr reply;
  ibv_qp& verbs = queue_pair.verbs.qp_base;
  const int error =
      Call(*queue_pair.connection, UROCE_QUERY_QP, uroce_handle{verbs.handle, 0}, &reply);
  if (error != 0) return error;
  *attr = FromAbi(reply);
  attr->cap = queue_pair.cap;
  verbs.state = attr->qp_state;
  *init = {};
  init->qp_context = verbs.qp_context;
  init->send_cq = verbs.send_cq;
  init->recv_cq = verbs.recv_cq;
  init->srq = verbs.srq;
  init->cap = queue_pair.cap;
  init->qp_type = verbs.qp_type;
  init->sq_sig_all = queue_pair.signal_all ? 1 : 0;
  return 0;
}

/// Ends the queue pair at the daemon and in our tables. Afterwards only its owner knows it.
int Withdraw(QueuePair& queue_pair, uroce_destroy_qp_reply* reply) {
  DaemonConnection& connection = *queue_pair.connection;
  const uint32_t handle = queue_pair.verbs.qp_base.handle;
  const MutexLock lock(connection.queue_pair_mutex());
  const int error = EndObject(connection, UROCE_DESTROY_QP, handle, reply);
  if (error != 0 || queue_pair.page == nullptr) return error;
  connection.queue_pairs().Remove(handle, &queue_pair);
  ForgetCompletions(queue_pair);
  return 0;
}

int Destroy(QueuePair& queue_pair) {
  ibv_qp& verbs = queue_pair.verbs.qp_base;
  DaemonConnection& connection = *queue_pair.connection;
  uroce_destroy_qp_reply reply;
  const int error = Withdraw(queue_pair, &reply);
  if (error != 0) return error;
  connection.events().Remove(queue_pair.events);
  if (connection.is_live()) {
    DropUnread(*Ours(verbs.context), queue_pair.events, reply.async_events_reported);
    WaitForAcknowledgement(verbs.mutex, verbs.cond, &verbs.events_completed,
                           queue_pair.events.async_events);
  }
  EndSendCopies(queue_pair);
  Free(&queue_pair);
  return 0;
}

/// An XRC target has only a domain; other attributes cannot be asked for.
ibv_qp* CreateTarget(ibv_qp_init_attr_ex& attributes) {
  constexpr uint32_t kServed = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD;
  if ((attributes.comp_mask & ~kServed) != 0) return FailWith(EOPNOTSUPP);
  if ((attributes.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0) return FailWith(EINVAL);
  attributes.cap = {};
  ibv_qp* target = uroce::shim::CreateTarget(attributes.xrcd, attributes.qp_context);
  // The target has no PD, but librdmacm stores the queue pair's PD in the rdma_cm_id.
  const bool names_pd = (attributes.comp_mask & IBV_QP_INIT_ATTR_PD) != 0;
  if (target != nullptr && names_pd) target->pd = attributes.pd;
  return target;
}

}  // namespace

// Bursts are as long as the worker's: max_burst_sz and typical_pkt_sz are hints to adapters.
int ModifyQpRateLimit(ibv_qp* qp, ibv_qp_rate_limit_attr* attributes) {
  if (attributes->comp_mask != 0) return EINVAL;
  ibv_qp_attr attr = {};
  attr.rate_limit = attributes->rate_limit;
  return Modify(*Ours(qp), attr, IBV_QP_RATE_LIMIT);
}

ibv_qp* CreateQpEx(ibv_context*, ibv_qp_init_attr_ex* attributes) {
  constexpr uint32_t kServed =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  const uint32_t mask = attributes->comp_mask;
  if (attributes->qp_type == IBV_QPT_XRC_RECV) return CreateTarget(*attributes);
  if ((mask & ~kServed) != 0) return FailWith(EOPNOTSUPP);
  if ((mask & IBV_QP_INIT_ATTR_PD) == 0) return FailWith(EINVAL);
  if ((mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attributes->create_flags != 0) {
    return FailWith(EOPNOTSUPP);
  }
  const bool wants_extended = (mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  const uint64_t served_ops = ServedOps(attributes->qp_type);
  if (wants_extended && (attributes->send_ops_flags & ~served_ops) != 0) {
    return FailWith(EOPNOTSUPP);
  }
  return Create({attributes->pd, attributes->qp_context, attributes->send_cq, attributes->recv_cq,
                 attributes->srq, attributes->qp_type, attributes->sq_sig_all != 0, wants_extended,
                 &attributes->cap});
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

UROCE_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  if (!IsOurs(pd->context)) return real_ibv_create_qp.CallOr(nullptr, pd, attributes);
  if (attributes->qp_type == IBV_QPT_XRC_RECV) return FailWith(EINVAL);  // XRC_RECV has no PD.
  return Create({pd, attributes->qp_context, attributes->send_cq, attributes->recv_cq,
                 attributes->srq, attributes->qp_type, attributes->sq_sig_all != 0, false,
                 &attributes->cap});
}

UROCE_EXPORT int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  return IsOurs(qp->context) ? Modify(*Ours(qp), *attr, mask)
                             : real_ibv_modify_qp.CallOr(ENOSYS, qp, attr, mask);
}

UROCE_EXPORT int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) {
  return IsOurs(qp->context) ? Query(*Ours(qp), attr, init)
                             : real_ibv_query_qp.CallOr(ENOSYS, qp, attr, mask, init);
}

UROCE_EXPORT int ibv_destroy_qp(ibv_qp* qp) {
  return IsOurs(qp->context) ? Destroy(*Ours(qp)) : real_ibv_destroy_qp.CallOr(ENOSYS, qp);
}

UROCE_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  if (!IsOurs(qp->context)) return real_ibv_qp_to_qp_ex.CallOr(nullptr, qp);
  return Ours(qp)->has_extended ? &Ours(qp)->verbs : nullptr;
}

// Gives no promise: data may be placed out of order when both ends agreed on it.
UROCE_EXPORT int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode, uint32_t flags) {
  if (IsOurs(qp->context)) return 0;
  return real_ibv_query_qp_data_in_order.CallOr(0, qp, opcode, flags);
}

}  // extern "C"

namespace uroce::shim {

// ---- Multicast groups: ibv_attach_mcast(3) ----

namespace {

UROCE_REAL(ibv_attach_mcast, "IBVERBS_1.1");
UROCE_REAL(ibv_detach_mcast, "IBVERBS_1.1");

int Tell(ibv_qp* qp, uroce_command command, const ibv_gid& gid) {
  uroce_mcast request = {qp->handle, 0, {}};
  memcpy(request.gid, gid.raw, sizeof(request.gid));
  return Call(*Ours(qp)->connection, command, request);
}

}  // namespace
}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

UROCE_EXPORT int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  return IsOurs(qp->context) ? Tell(qp, UROCE_ATTACH_MCAST, *gid)
                             : real_ibv_attach_mcast.CallOr(ENOSYS, qp, gid, lid);
}

UROCE_EXPORT int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  return IsOurs(qp->context) ? Tell(qp, UROCE_DETACH_MCAST, *gid)
                             : real_ibv_detach_mcast.CallOr(ENOSYS, qp, gid, lid);
}

}  // extern "C"
