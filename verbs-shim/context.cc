// SPDX-License-Identifier: Apache-2.0
// Opening and closing a device.
#include <string.h>
#include <unistd.h>

#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {

void FillOps(verbs_context& context) {
  FillAbsentOps(context);
  context.query_port = &QueryPort;
  context.query_device_ex = &QueryDeviceEx;
  context.create_cq_ex = &CreateCqEx;
  context.create_qp_ex = &CreateQpEx;
  ibv_context_ops& ops = context.context.ops;
  ops.poll_cq = &PollCq;
  ops.req_notify_cq = &RequestNotify;
  ops.post_send = &PostSend;
  ops.post_recv = &PostReceive;
}

namespace {

UROCE_REAL(ibv_open_device, "IBVERBS_1.1");
UROCE_REAL(ibv_close_device, "IBVERBS_1.1");

int CountProcessors() {
  const long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count < 1 ? 1 : static_cast<int>(count);
}

void FillContext(Context& context, int async_fd) {
  verbs_context& verbs = context.verbs;
  verbs.sz = sizeof(verbs);
  FillOps(verbs);
  ibv_context& base = verbs.context;
  base.device = &context.device->verbs;
  base.cmd_fd = -1;
  base.async_fd = async_fd;
  base.num_comp_vectors = CountProcessors();
  base.mutex = PTHREAD_MUTEX_INITIALIZER;
  base.abi_compat = __VERBS_ABI_IS_EXTENDED;
}

ibv_context* Open(Device& device) {
  Session* session = Session::Current();
  if (session == nullptr) return FailWith(EIO);
  auto* context = Make<Context>();
  if (context == nullptr) return FailWith(ENOMEM);
  context->session = session;
  context->device = &device;
  int async_fd = -1;
  uint32_t fd_count = 1;
  int error = MakeHandle(*session, UROCE_OPEN_CONTEXT, uroce_open_context{device.index, 0},
                         &context->handle, &async_fd, &fd_count);
  if (error == 0 && fd_count != 1) error = EIO;
  if (error != 0) {
    Free(context);
    return FailWith(error);
  }
  FillContext(*context, async_fd);
  return &context->verbs.context;
}

/// What the program left behind ends with it, at the daemon: perftest leaves a CQ.
int Close(Context& context) {
  const int error = EndObject(*context.session, UROCE_CLOSE_CONTEXT, context.handle);
  if (error != 0) {
    errno = error;
    return -1;
  }
  close(context.verbs.context.async_fd);
  pthread_mutex_destroy(&context.verbs.context.mutex);
  Free(&context);
  return 0;
}

}  // namespace
}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

UROCE_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  return IsOurs(device) ? Open(*Ours(device)) : real_ibv_open_device.CallOr(nullptr, device);
}

UROCE_EXPORT int ibv_close_device(ibv_context* context) {
  return IsOurs(context) ? Close(*Ours(context)) : real_ibv_close_device.CallOr(-1, context);
}

}  // extern "C"
