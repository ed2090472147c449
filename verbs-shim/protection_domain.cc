// SPDX-License-Identifier: Apache-2.0
// Protection domains, thread domains, and parent domains, which join the two: ibv_alloc_pd(3),
// ibv_alloc_td(3), ibv_alloc_parent_domain(3).
#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {
namespace {

UROCE_REAL(ibv_alloc_pd, "IBVERBS_1.1");
UROCE_REAL(ibv_dealloc_pd, "IBVERBS_1.1");

/// A hint that one thread uses the objects made in it. It has no effect: our locks are cheap then.
struct ThreadDomain {
  ibv_td verbs;
  uint32_t users;  ///< How many parent domains use it.
};

ThreadDomain* Ours(ibv_td* td) { return reinterpret_cast<ThreadDomain*>(td); }
using shim::Ours;

ibv_pd* AllocPd(Context& context) {
  auto* pd = Make<ProtectionDomain>();
  if (pd == nullptr) return FailWith(ENOMEM);
  pd->verbs.context = &context.verbs.context;
  const int error = MakeHandle(*context.connection, UROCE_ALLOC_PD, uroce_handle{context.handle, 0},
                               &pd->verbs.handle);
  if (error == 0) return &pd->verbs;
  Free(pd);
  return FailWith(error);
}

int DeallocParentDomain(ProtectionDomain& parent) {
  {
    const MutexLock lock(parent.verbs.context->mutex);
    --parent.protection_domain->parents;
    if (parent.td != nullptr) --Ours(parent.td)->users;
  }
  Free(&parent);
  return 0;
}

int DeallocPd(ProtectionDomain& pd) {
  if (pd.protection_domain != nullptr) return DeallocParentDomain(pd);
  {
    const MutexLock lock(pd.verbs.context->mutex);
    if (pd.parents != 0) return EBUSY;
  }
  DaemonConnection& connection = *Ours(pd.verbs.context)->connection;
  const int error = EndObject(connection, UROCE_DEALLOC_PD, pd.verbs.handle);
  if (error == 0) Free(&pd);
  return error;
}

}  // namespace

ibv_td* AllocTd(ibv_context* context, ibv_td_init_attr* attributes) {
  if (attributes->comp_mask != 0) return FailWith(EINVAL);
  auto* td = Make<ThreadDomain>();
  if (td == nullptr) return FailWith(ENOMEM);
  td->verbs.context = context;
  return &td->verbs;
}

int DeallocTd(ibv_td* td) {
  {
    const MutexLock lock(td->context->mutex);
    if (Ours(td)->users != 0) return EBUSY;
  }
  Free(Ours(td));
  return 0;
}

// Custom allocators serve what a provider allocates in the program. Our queues lie in memory that
// the daemon made, so the allocators are never called.
ibv_pd* AllocParentDomain(ibv_context* context, ibv_parent_domain_init_attr* attributes) {
  // A permission to allocate memory that a confidential guest shares with its host
  // (IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC, which Debian 12's headers lack). A
  // device without IBV_DEVICE_CC_DMA_BOUNCE needs none.
  constexpr uint32_t kAllowUnprotected = 1 << 2;
  constexpr uint32_t kKnown = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                              IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | kAllowUnprotected;
  if ((attributes->comp_mask & ~kKnown) != 0 || attributes->pd == nullptr) return FailWith(EINVAL);
  ProtectionDomain* pd = Ours(attributes->pd);
  if (pd->verbs.context != context || pd->protection_domain != nullptr) return FailWith(EINVAL);
  auto* parent = Make<ProtectionDomain>();
  if (parent == nullptr) return FailWith(ENOMEM);
  parent->verbs = {context, pd->verbs.handle};
  parent->protection_domain = pd;
  parent->td = attributes->td;
  const MutexLock lock(context->mutex);
  ++pd->parents;
  if (parent->td != nullptr) ++Ours(parent->td)->users;
  return &parent->verbs;
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

UROCE_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return IsOurs(context) ? AllocPd(*Ours(context)) : real_ibv_alloc_pd.CallOr(nullptr, context);
}

UROCE_EXPORT int ibv_dealloc_pd(ibv_pd* pd) {
  return IsOurs(pd->context) ? DeallocPd(*Ours(pd)) : real_ibv_dealloc_pd.CallOr(ENOSYS, pd);
}

}  // extern "C"
