// SPDX-License-Identifier: Apache-2.0
// Verbs that our devices do not support. Programs reach them through tables or exported symbols.
// Each one gives EOPNOTSUPP, as rdma-core does for a device without that verb. No slot stays empty.
#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {
namespace {

UROCE_REAL(ibv_query_ece, "IBVERBS_1.10");
UROCE_REAL(ibv_set_ece, "IBVERBS_1.10");

/// A function of any signature that refuses: it sets errno and returns null, or returns the errno.
template <typename Function>
struct Refusal;
template <typename Object, typename... Arguments>
struct Refusal<Object* (*)(Arguments...)> {
  static Object* Call(Arguments...) { return FailWith(EOPNOTSUPP); }
};
template <typename... Arguments>
struct Refusal<int (*)(Arguments...)> {
  static int Call(Arguments...) { return EOPNOTSUPP; }
};
template <typename... Arguments>
struct Refusal<void (*)(Arguments...)> {
  static void Call(Arguments...) {}
};

template <typename... Functions>
void Refuse(Functions&... slots) {
  ((slots = &Refusal<Functions>::Call), ...);
}

int RefusePostSrqOps(ibv_srq*, ibv_ops_wr* wr, ibv_ops_wr** bad_wr) {
  *bad_wr = wr;
  return EOPNOTSUPP;
}

void FillCompatOps(ibv_context_ops& ops) {
  Refuse(ops._compat_query_device, ops._compat_query_port, ops._compat_alloc_pd,
         ops._compat_dealloc_pd, ops._compat_reg_mr, ops._compat_rereg_mr, ops._compat_dereg_mr,
         ops._compat_create_cq, ops._compat_cq_event, ops._compat_resize_cq, ops._compat_destroy_cq,
         ops._compat_create_srq, ops._compat_modify_srq, ops._compat_query_srq,
         ops._compat_destroy_srq, ops._compat_create_qp, ops._compat_query_qp,
         ops._compat_modify_qp, ops._compat_destroy_qp, ops._compat_create_ah,
         ops._compat_destroy_ah, ops._compat_attach_mcast, ops._compat_detach_mcast,
         ops._compat_async_event);
}

}  // namespace

void FillAbsentOps(verbs_context& context) {
  Refuse(context.read_counters, context.attach_counters_point_flow, context.create_counters,
         context.destroy_counters, context.modify_flow_action_esp, context.destroy_flow_action,
         context.create_flow_action_esp, context.destroy_rwq_ind_table,
         context.create_rwq_ind_table, context.destroy_wq, context.modify_wq, context.create_wq,
         context.ibv_destroy_flow, context.ABI_placeholder2, context.ibv_create_flow,
         context.ABI_placeholder1);
  context.post_srq_ops = &RefusePostSrqOps;
  ibv_context_ops& ops = context.context.ops;
  FillCompatOps(ops);
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

UROCE_EXPORT int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  return IsOurs(qp->context) ? EOPNOTSUPP : real_ibv_query_ece.CallOr(ENOSYS, qp, ece);
}

UROCE_EXPORT int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  return IsOurs(qp->context) ? EOPNOTSUPP : real_ibv_set_ece.CallOr(ENOSYS, qp, ece);
}

}  // extern "C"
