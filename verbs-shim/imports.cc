// SPDX-License-Identifier: Apache-2.0
// Protection domains and regions of an imported context: ibv_import_pd(3), ibv_import_mr(3). An
// imported object ends with the object that it stands for. Unimporting ends it in this program
// only. `ibv_context.cmd_fd` is a sealed file with the secret of its context: a program that is
// given it may use the context's PDs and regions (ibv_import_device).
#include "verbs-shim/memory_region.h"
#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {
namespace {

UROCE_REAL(ibv_import_pd, "IBVERBS_1.10");
UROCE_REAL(ibv_unimport_pd, "IBVERBS_1.10");
UROCE_REAL(ibv_import_mr, "IBVERBS_1.10");
UROCE_REAL(ibv_unimport_mr, "IBVERBS_1.10");

ibv_pd* ImportPd(Context& context, uint32_t handle) {
  auto* pd = Make<ProtectionDomain>();
  if (pd == nullptr) return FailWith(ENOMEM);
  pd->verbs.context = &context.verbs.context;
  const int error = MakeHandle(*context.connection, UROCE_IMPORT_PD,
                               uroce_import{context.handle, handle}, &pd->verbs.handle);
  if (error == 0) return &pd->verbs;
  Free(pd);
  return FailWith(error);
}

void UnimportPd(ibv_pd* pd) {
  (void)EndObject(*Ours(pd->context)->connection, UROCE_DEALLOC_PD, pd->handle);
  Free(Ours(pd));
}

ibv_mr* ImportMr(ibv_pd* pd, uint32_t handle) {
  auto* mr = Make<MemoryRegion>();
  if (mr == nullptr) return FailWith(ENOMEM);
  uroce_import_mr_reply made;
  const int error = Call(*Ours(pd->context)->connection, UROCE_IMPORT_MR,
                         uroce_import{pd->handle, handle}, &made);
  if (error != 0) {
    Free(mr);
    return FailWith(error);
  }
  mr->is_imported = true;
  // Only the maker knows the address.
  mr->verbs = {pd->context, pd, nullptr, made.length, handle, made.lkey, made.rkey};
  return &mr->verbs;
}

}  // namespace
}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

UROCE_EXPORT ibv_pd* ibv_import_pd(ibv_context* context, uint32_t handle) {
  return IsOurs(context) ? ImportPd(*Ours(context), handle)
                         : real_ibv_import_pd.CallOr(nullptr, context, handle);
}

UROCE_EXPORT void ibv_unimport_pd(ibv_pd* pd) {
  return IsOurs(pd->context) ? UnimportPd(pd) : real_ibv_unimport_pd.Call(pd);
}

UROCE_EXPORT ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) {
  return IsOurs(pd->context) ? ImportMr(pd, handle)
                             : real_ibv_import_mr.CallOr(nullptr, pd, handle);
}

UROCE_EXPORT void ibv_unimport_mr(ibv_mr* mr) {
  return IsOurs(mr->context) ? Free(Ours(mr)) : real_ibv_unimport_mr.Call(mr);
}

}  // extern "C"
