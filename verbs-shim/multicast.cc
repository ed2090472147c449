// SPDX-License-Identifier: Apache-2.0
// Attaches queue pairs to multicast groups: ibv_attach_mcast(3).
#include <string.h>

#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {
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
