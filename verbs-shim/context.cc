// SPDX-License-Identifier: Apache-2.0
// Opens and closes devices.
#include <string.h>
#include <unistd.h>

#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {

int TakeBack(DaemonConnection& connection, uroce_command end, uint32_t handle, const int* fds,
             uint32_t fd_count) {
  for (uint32_t i = 0; i < fd_count; ++i) close(fds[i]);
  (void)EndObject(connection, end, handle);
  return EMFILE;
}

void FillOps(verbs_context& context) {
  FillAbsentOps(context);
  context.query_port = &QueryPort;
  context.query_device_ex = &QueryDeviceEx;
  context.create_cq_ex = &CreateCqEx;
  context.modify_cq = &ModifyCq;
  context.query_rt_values = &QueryRtValues;
  context.create_qp_ex = &CreateQpEx;
  context.modify_qp_rate_limit = &ModifyQpRateLimit;
  context.create_srq_ex = &CreateSrqEx;
  context.get_srq_num = &GetSrqNum;
  context.open_xrcd = &OpenXrcd;
  context.close_xrcd = &CloseXrcd;
  context.open_qp = &OpenQp;
  context.alloc_td = &AllocTd;
  context.dealloc_td = &DeallocTd;
  context.alloc_parent_domain = &AllocParentDomain;
  context.advise_mr = &AdviseMr;
  context.alloc_null_mr = &AllocNullMr;
  context.alloc_dm = &AllocDm;
  context.free_dm = &FreeDm;
  context.reg_dm_mr = &RegDmMr;
  ibv_context_ops& ops = context.context.ops;
  ops.alloc_mw = &AllocMw;
  ops.bind_mw = &BindMw;
  ops.dealloc_mw = &DeallocMw;
  ops.poll_cq = &PollCq;
  ops.req_notify_cq = &RequestNotify;
  ops.post_send = &PostSend;
  ops.post_recv = &PostReceive;
  ops.post_srq_recv = &PostSharedReceive;
}

namespace {

UROCE_REAL(ibv_open_device, "IBVERBS_1.1");
UROCE_REAL(ibv_import_device, "IBVERBS_1.10");
UROCE_REAL(ibv_close_device, "IBVERBS_1.1");

int CountProcessors() {
  const long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count < 1 ? 1 : static_cast<int>(count);
}

void FillContext(Context& context, int async_fd, int cmd_fd) {
  verbs_context& verbs = context.verbs;
  // Slots of newer headers stand before query_port, and are not ours.
  verbs.sz = sizeof(verbs) - offsetof(verbs_context, query_port);
  FillOps(verbs);
  ibv_context& base = verbs.context;
  base.device = &context.device->verbs;
  base.cmd_fd = cmd_fd;
  base.async_fd = async_fd;
  base.num_comp_vectors = CountProcessors();
  base.mutex = PTHREAD_MUTEX_INITIALIZER;
  base.abi_compat = __VERBS_ABI_IS_EXTENDED;
}

/// The connection to open `device` with; null: the daemon or the device is gone. A program may
/// have forked since it listed the devices, or closed all fds that it does not know. A list depends
/// on no fd, so a new connection looks for the device of that name.
DaemonConnection* ConnectionFor(const Device& device) {
  DaemonConnection* connection = DaemonConnection::Current();
  if (connection != nullptr && connection->CheckAlive()) return connection;
  return ListAgain(device) ? DaemonConnection::Current() : nullptr;
}

ibv_context* Open(Device& device) {
  DaemonConnection* connection = ConnectionFor(device);
  if (connection == nullptr) return FailWith(EIO);
  auto* context = Make<Context>();
  if (context == nullptr) return FailWith(ENOMEM);
  context->connection = connection;
  context->device = &device;
  int fds[2] = {-1, -1};  // The fds of the asynchronous events and of the context's name.
  const int error =
      MakeHandle(*connection, UROCE_OPEN_CONTEXT, uroce_open_context{device.info.index, 0},
                 &context->handle, fds, UROCE_CLOSE_CONTEXT);
  if (error != 0) {
    Free(context);
    return FailWith(error);
  }
  FillContext(*context, fds[0], fds[1]);
  return &context->verbs.context;
}

/// Whether `fd` names a context of ours. Sets `name`.
bool ReadName(int fd, uroce_context_name& name) {
  const ErrnoKeeper keeper;
  return pread(fd, &name, sizeof(name), 0) == static_cast<ssize_t>(sizeof(name)) &&
         name.magic == UROCE_CONTEXT_NAME_MAGIC;
}

/// Imports a context of this or another process. The new context owns `cmd_fd`.
ibv_context* Import(const uroce_context_name& name, int cmd_fd) {
  // Connects to the daemon too, and learns its devices.
  ibv_device** list = ibv_get_device_list(nullptr);
  DaemonConnection* connection = DaemonConnection::Current();
  if (list != nullptr) ibv_free_device_list(list);
  if (connection == nullptr) return FailWith(EIO);
  auto* context = Make<Context>();
  if (context == nullptr) return FailWith(ENOMEM);
  uroce_import_context_reply made;
  int async_fd = -1;
  uint32_t fd_count = 1;
  int error = Call(*connection, UROCE_IMPORT_CONTEXT, name, &made, &async_fd, &fd_count);
  context->device = error == 0 ? FindDevice(made.device_index) : nullptr;
  if (error == 0 && (context->device == nullptr || fd_count != 1)) {
    error = TakeBack(*connection, UROCE_CLOSE_CONTEXT, made.handle, &async_fd, fd_count);
  }
  if (error != 0) {
    Free(context);
    return FailWith(error);
  }
  context->connection = connection;
  context->handle = made.handle;
  FillContext(*context, async_fd, cmd_fd);
  return &context->verbs.context;
}

/// The daemon frees the objects that the program left behind: perftest leaves a CQ.
int Close(Context& context) {
  const int error = EndObject(*context.connection, UROCE_CLOSE_CONTEXT, context.handle);
  if (error != 0) {
    errno = error;
    return -1;
  }
  close(context.verbs.context.async_fd);
  close(context.verbs.context.cmd_fd);
  context.events.Free();
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

UROCE_EXPORT ibv_context* ibv_import_device(int cmd_fd) {
  uroce_context_name name;
  return ReadName(cmd_fd, name) ? Import(name, cmd_fd)
                                : real_ibv_import_device.CallOr(nullptr, cmd_fd);
}

UROCE_EXPORT int ibv_close_device(ibv_context* context) {
  return IsOurs(context) ? Close(*Ours(context)) : real_ibv_close_device.CallOr(-1, context);
}

}  // extern "C"
