// SPDX-License-Identifier: Apache-2.0
// Memory windows: ibv_alloc_mw(3), ibv_bind_mw(3). A bind is a work request of a queue pair
// (post.cc).
#include "verbs-shim/objects.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {

ibv_mw* AllocMw(ibv_pd* pd, ibv_mw_type type) {
  auto* mw = Make<ibv_mw>();
  if (mw == nullptr) return FailWith(ENOMEM);
  uroce_alloc_mw_reply made;
  const int error = Call(*Ours(pd->context)->connection, UROCE_ALLOC_MW,
                         uroce_alloc_mw{pd->handle, static_cast<uint32_t>(type)}, &made);
  if (error != 0) {
    Free(mw);
    return FailWith(error);
  }
  *mw = {pd->context, pd, made.rkey, made.handle, type};
  return mw;
}

int DeallocMw(ibv_mw* mw) {
  const int error = EndObject(*Ours(mw->context)->connection, UROCE_DEALLOC_MW, mw->handle);
  if (error == 0) Free(mw);
  return error;
}

// The header of libibverbs lets only type 1 through. The window has the new key from now on: its
// use is refused until the binding is complete.
int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  ibv_send_wr request = {};
  request.wr_id = bind->wr_id;
  request.opcode = IBV_WR_BIND_MW;
  request.send_flags = bind->send_flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
  request.bind_mw = {mw, ibv_inc_rkey(mw->rkey), bind->bind_info};
  ibv_send_wr* bad = nullptr;
  const int error = PostSend(qp, &request, &bad);
  if (error == 0) mw->rkey = request.bind_mw.rkey;
  return error;
}

}  // namespace uroce::shim
