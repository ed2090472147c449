// SPDX-License-Identifier: Apache-2.0
// Extended reliable connections (XRC): domains, and the target queue pairs in them. Several
// programs may open the same ones. A target queue pair has no rings. A completion of an XRC queue
// names the queue, since the target may be another program's. Rules: ibv_open_xrcd(3),
// ibv_open_qp(3).
#include "verbs-shim/memory_region.h"
#include "verbs-shim/objects.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {
namespace {

int Open(XrcDomain& xrcd, ibv_context* base, const ibv_xrcd_init_attr& attributes) {
  Context& context = *Ours(base);
  uroce_open_xrcd request = {};
  request.context = context.handle;
  request.file = UROCE_NONE;
  request.oflags = static_cast<uint32_t>(attributes.oflags);
  if (attributes.fd != -1) {
    const int error = memory::LendXrcFile(*context.connection, attributes.fd, &request.file);
    if (error != 0) return error;
  }
  xrcd.verbs.context = base;
  return MakeHandle(*context.connection, UROCE_OPEN_XRCD, request, &xrcd.handle);
}

void FillVerbs(ibv_qp& verbs, ibv_context* context, void* qp_context,
               const uroce_target_reply& made) {
  verbs.context = context;
  verbs.qp_context = qp_context;
  verbs.handle = made.handle;
  verbs.qp_num = made.qp_num;
  verbs.state = StateFromAbi(made.qp_state);
  verbs.qp_type = IBV_QPT_XRC_RECV;
  verbs.mutex = PTHREAD_MUTEX_INITIALIZER;
  verbs.cond = PTHREAD_COND_INITIALIZER;
}

/// Makes or opens a target; `request` has all but user_handle.
template <typename Request>
ibv_qp* MakeTarget(ibv_context* context, void* qp_context, uroce_command command, Request request) {
  auto* queue_pair = Make<QueuePair>();
  if (queue_pair == nullptr) return FailWith(ENOMEM);
  queue_pair->connection = Ours(context)->connection;
  EventTable& events = queue_pair->connection->events();
  events.Add(queue_pair->events, EventKind::kQueuePair, queue_pair);
  request.user_handle = queue_pair->events.number;
  uroce_target_reply made;
  const int error = Call(*queue_pair->connection, command, request, &made);
  if (error != 0) {
    events.Remove(queue_pair->events);
    Free(queue_pair);
    return FailWith(error);
  }
  FillVerbs(*VerbsOf(queue_pair), context, qp_context, made);
  return VerbsOf(queue_pair);
}

}  // namespace

ibv_xrcd* OpenXrcd(ibv_context* context, ibv_xrcd_init_attr* attributes) {
  constexpr uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if ((attributes->comp_mask & ~kNeeded) != 0) return FailWith(EOPNOTSUPP);
  if (attributes->comp_mask != kNeeded) return FailWith(EINVAL);
  auto* xrcd = Make<XrcDomain>();
  if (xrcd == nullptr) return FailWith(ENOMEM);
  const int error = Open(*xrcd, context, *attributes);
  if (error == 0) return &xrcd->verbs;
  Free(xrcd);
  return FailWith(error);
}

int CloseXrcd(ibv_xrcd* base) {
  XrcDomain& xrcd = *Ours(base);
  const int error = EndObject(*Ours(base->context)->connection, UROCE_CLOSE_XRCD, xrcd.handle);
  if (error == 0) Free(&xrcd);
  return error;
}

ibv_qp* CreateTarget(ibv_xrcd* xrcd, void* qp_context) {
  const uroce_create_target request = {Ours(xrcd)->handle, 0, 0};
  return MakeTarget(xrcd->context, qp_context, UROCE_CREATE_TARGET, request);
}

ibv_qp* OpenQp(ibv_context* context, ibv_qp_open_attr* attributes) {
  constexpr uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  constexpr uint32_t kKnown = kNeeded | IBV_QP_OPEN_ATTR_CONTEXT;
  const uint32_t mask = attributes->comp_mask;
  if ((mask & ~kKnown) != 0) return FailWith(EOPNOTSUPP);
  if ((mask & kNeeded) != kNeeded || attributes->qp_type != IBV_QPT_XRC_RECV) {
    return FailWith(EINVAL);
  }
  const int error = CheckNamed(*Ours(context)->connection, attributes->xrcd->context);
  if (error != 0) return FailWith(error);
  void* qp_context = (mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0 ? attributes->qp_context : nullptr;
  const uroce_open_target request = {Ours(attributes->xrcd)->handle, attributes->qp_num, 0};
  return MakeTarget(context, qp_context, UROCE_OPEN_TARGET, request);
}

}  // namespace uroce::shim
