// SPDX-License-Identifier: Apache-2.0
// Protection domains and memory regions. Return codes: protocol/verbs-semantics.md, 5.
#include "verbs-shim/memory/memory.h"
#include "verbs-shim/memory/session_daemon.h"
#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace uroce::shim {
namespace {

struct MemoryRegion {
  ibv_mr verbs;
  memory::MemoryRegistration registration;
};

MemoryRegion* Ours(ibv_mr* mr) { return reinterpret_cast<MemoryRegion*>(mr); }
using shim::Ours;

UROCE_REAL(ibv_alloc_pd, "IBVERBS_1.1");
UROCE_REAL(ibv_dealloc_pd, "IBVERBS_1.1");
UROCE_REAL(ibv_reg_mr, "IBVERBS_1.1");
UROCE_REAL(ibv_reg_mr_iova, "IBVERBS_1.7");
UROCE_REAL(ibv_reg_mr_iova2, "IBVERBS_1.8");
UROCE_REAL(ibv_reg_dmabuf_mr, "IBVERBS_1.12");
UROCE_REAL(ibv_rereg_mr, "IBVERBS_1.1");
UROCE_REAL(ibv_dereg_mr, "IBVERBS_1.1");
UROCE_REAL(ibv_import_pd, "IBVERBS_1.10");
UROCE_REAL(ibv_unimport_pd, "IBVERBS_1.10");
UROCE_REAL(ibv_import_mr, "IBVERBS_1.10");
UROCE_REAL(ibv_unimport_mr, "IBVERBS_1.10");

ibv_pd* AllocPd(Context& context) {
  auto* pd = Make<ProtectionDomain>();
  if (pd == nullptr) return FailWith(ENOMEM);
  pd->verbs.context = &context.verbs.context;
  const int error = MakeHandle(*context.session, UROCE_ALLOC_PD, uroce_handle{context.handle, 0},
                               &pd->verbs.handle);
  if (error == 0) return &pd->verbs;
  Free(pd);
  return FailWith(error);
}

int DeallocPd(ibv_pd* pd) {
  const int error = EndObject(*Ours(pd->context)->session, UROCE_DEALLOC_PD, pd->handle);
  if (error == 0) Free(pd);
  return error;
}

ibv_mr* Register(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned access) {
  auto* mr = Make<MemoryRegion>();
  if (mr == nullptr) return FailWith(ENOMEM);
  const memory::MemoryRequest request = {.pd = pd->handle,
                                         .access = access,
                                         .addr = reinterpret_cast<uintptr_t>(addr),
                                         .length = length,
                                         .iova = iova};
  const int error = memory::RegisterMemory(memory::DaemonOf(*Ours(pd->context)->session), request,
                                           mr->registration);
  if (error != 0) {
    Free(mr);
    return FailWith(error);
  }
  const memory::MemoryRegistration& made = mr->registration;
  mr->verbs = {pd->context, pd, addr, length, made.handle, made.lkey, made.rkey};
  return &mr->verbs;
}

int Deregister(MemoryRegion& mr) {
  Session& session = *Ours(mr.verbs.context)->session;
  const int error = memory::DeregisterMemory(memory::DaemonOf(session), mr.registration);
  if (error != 0 && session.state() != SessionState::kDaemonGone) return error;
  Free(&mr);
  return 0;
}

}  // namespace
}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

UROCE_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return IsOurs(context) ? AllocPd(*Ours(context)) : real_ibv_alloc_pd.CallOr(nullptr, context);
}

UROCE_EXPORT int ibv_dealloc_pd(ibv_pd* pd) {
  return IsOurs(pd->context) ? DeallocPd(pd) : real_ibv_dealloc_pd.CallOr(ENOSYS, pd);
}

UROCE_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int access) {
  if (!IsOurs(pd->context)) return real_ibv_reg_mr.CallOr(nullptr, pd, addr, length, access);
  return Register(pd, addr, length, reinterpret_cast<uintptr_t>(addr),
                  static_cast<unsigned>(access));
}

UROCE_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                                     int access) {
  if (!IsOurs(pd->context)) {
    return real_ibv_reg_mr_iova.CallOr(nullptr, pd, addr, length, iova, access);
  }
  return Register(pd, addr, length, iova, static_cast<unsigned>(access));
}

UROCE_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                                      unsigned int access) {
  if (!IsOurs(pd->context)) {
    return real_ibv_reg_mr_iova2.CallOr(nullptr, pd, addr, length, iova, access);
  }
  return Register(pd, addr, length, iova, access);
}

UROCE_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova,
                                       int fd, int access) {
  if (IsOurs(pd->context)) return FailWith(EOPNOTSUPP);
  return real_ibv_reg_dmabuf_mr.CallOr(nullptr, pd, offset, length, iova, fd, access);
}

UROCE_EXPORT int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length,
                              int access) {
  if (!IsOurs(mr->context)) {
    return real_ibv_rereg_mr.CallOr(IBV_REREG_MR_ERR_INPUT, mr, flags, pd, addr, length, access);
  }
  errno = EOPNOTSUPP;
  return IBV_REREG_MR_ERR_INPUT;  // Nothing has changed.
}

UROCE_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  return IsOurs(mr->context) ? Deregister(*Ours(mr)) : real_ibv_dereg_mr.CallOr(ENOSYS, mr);
}

// Objects of ours cannot be shared between processes by their handle.
UROCE_EXPORT ibv_pd* ibv_import_pd(ibv_context* context, uint32_t handle) {
  if (IsOurs(context)) return FailWith(EOPNOTSUPP);
  return real_ibv_import_pd.CallOr(nullptr, context, handle);
}

UROCE_EXPORT void ibv_unimport_pd(ibv_pd* pd) {
  if (!IsOurs(pd->context)) real_ibv_unimport_pd.Call(pd);
}

UROCE_EXPORT ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) {
  if (IsOurs(pd->context)) return FailWith(EOPNOTSUPP);
  return real_ibv_import_mr.CallOr(nullptr, pd, handle);
}

UROCE_EXPORT void ibv_unimport_mr(ibv_mr* mr) {
  if (!IsOurs(mr->context)) real_ibv_unimport_mr.Call(mr);
}

}  // extern "C"
