// SPDX-License-Identifier: Apache-2.0
// Verbs that our devices do not support. Programs reach them through tables or exported symbols.
// Each one gives EOPNOTSUPP, as rdma-core does for a device without that verb. No slot stays empty.
#include <string.h>

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

// ---- The private part of a context ----
// libibverbs calls a verb that has no slot in verbs_context through a table in the part of the
// context that it keeps to itself. Each release has its own layout of that part, and newer releases
// have more verbs. Providers get their contexts from _verbs_init_and_alloc_context, with a private
// part whose table refuses all verbs that a provider does not fill in. So the installed library
// itself makes the private part of our contexts, and refuses the verbs that only it knows.

using MakeContext = void*(ibv_device*, int cmd_fd, size_t size_bytes, verbs_context* offset,
                          uint32_t driver_id);

/// Room for the verbs_context of any release: they grow, by a slot for each new verb.
constexpr size_t kContextRoom = 16 << 10;

/// Finds the verbs_context that the library made at `start` for `device`. It begins there, and ends
/// with the public part. Its size says where that part lies; null: the library is laid out in
/// another way.
verbs_context* FindMade(uint8_t* start, const ibv_device* device) {
  for (size_t at = sizeof(verbs_context); at <= kContextRoom; at += sizeof(void*)) {
    auto* made = reinterpret_cast<verbs_context*>(start + at - sizeof(verbs_context));
    if (made->context.device == device) return made->sz == at ? made : nullptr;
  }
  return nullptr;
}

/// The private part of a context that the installed library made; null: it makes none.
verbs_ex_private* MakePrivatePart() {
  const ErrnoKeeper keeper;
  auto* make =
      reinterpret_cast<MakeContext*>(FindReal("_verbs_init_and_alloc_context", "IBVERBS_PRIVATE"));
  if (make == nullptr) return nullptr;
  // The library counts the users of a device behind the public part, in memory that the library
  // allocates.
  struct {
    ibv_device verbs;
    uint64_t of_the_library[64];
  } device = {};
  void* start = make(&device.verbs, -1, kContextRoom, nullptr, 0);
  if (start == nullptr) return nullptr;
  const verbs_context* made = FindMade(static_cast<uint8_t*>(start), &device.verbs);
  verbs_ex_private* part = made != nullptr ? made->priv : nullptr;
  free(start);
  return part;
}

int RefuseUnknown() {
  errno = EOPNOTSUPP;
  return EOPNOTSUPP;
}

/// A private part for a library that makes none: each word of it is a function that refuses.
verbs_ex_private* RefusingPart() {
  static int (*words[512])() = {};
  for (auto& word : words) __atomic_store_n(&word, &RefuseUnknown, __ATOMIC_RELAXED);
  return reinterpret_cast<verbs_ex_private*>(words);
}

/// The private part of all contexts of the process. Nothing in it is of one context alone.
verbs_ex_private* PrivatePart() {
  static verbs_ex_private* part = nullptr;
  verbs_ex_private* made = __atomic_load_n(&part, __ATOMIC_ACQUIRE);
  if (made != nullptr) return made;
  made = MakePrivatePart();
  // The next context asks again: a program may load libibverbs later.
  if (made == nullptr) return RefusingPart();
  __atomic_store_n(&part, made, __ATOMIC_RELEASE);
  return made;
}

}  // namespace

void FillAbsentOps(verbs_context& context) {
  context.priv = PrivatePart();
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
