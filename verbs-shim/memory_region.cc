// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "verbs-shim/buffers.h"
#include "verbs-shim/daemon_connection.h"
#include "verbs-shim/gpu_driver.h"
#include "verbs-shim/gpu_stage.h"
#include "verbs-shim/memory/registry.h"
#include "verbs-shim/memory/system_call.h"
#include "verbs-shim/objects.h"
#include "verbs-shim/own_copies.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::memory {

// ---- The commands of memory registration over a connection's sockets ----

namespace {

using shim::DaemonConnection;

DaemonConnection& ConnectionOf(void* connection) {
  return *static_cast<DaemonConnection*>(connection);
}

int CreateSegment(void* connection, const uroce_create_segment& request, SegmentGrant& grant) {
  uroce_handle reply;
  uint32_t fd_count = 1;
  const int error = shim::Call(ConnectionOf(connection), UROCE_CREATE_SEGMENT, request, &reply,
                               &grant.memfd, &fd_count);
  if (error != 0) return error;
  grant.handle = reply.handle;
  const bool is_there = fd_count == 1;
  if (is_there && shim::IsSealedMemory(grant.memfd, request.length)) return 0;
  if (is_there) SystemCall(SYS_close, grant.memfd);
  (void)shim::Call(ConnectionOf(connection), UROCE_DESTROY_SEGMENT, reply);
  return is_there ? EIO : EMFILE;
}

int DestroySegment(void* connection, uint32_t handle) {
  return shim::Call(ConnectionOf(connection), UROCE_DESTROY_SEGMENT, uroce_handle{handle, 0});
}

int TrimSegment(void* connection, const uroce_trim_segment& request) {
  return shim::Call(ConnectionOf(connection), UROCE_TRIM_SEGMENT, request);
}

/// A command that ends in a list of segments.
template <typename Body, typename Reply>
int CallWithSegments(DaemonConnection& connection, uroce_command command, const Body& body,
                     const uroce_mr_segment* segments, uint32_t count, Reply& reply) {
  struct Message {
    shim::RequestOf<Body> fixed;
    uroce_mr_segment segments[UROCE_MAX_MR_SEGMENTS];
  };
  static_assert(offsetof(Message, segments) == sizeof(uroce_request) + sizeof(Body));
  Message message;
  message.fixed.header.command = command;
  message.fixed.body = body;
  memcpy(message.segments, segments, count * sizeof(uroce_mr_segment));
  const size_t bytes = offsetof(Message, segments) + count * sizeof(uroce_mr_segment);
  return connection.Command(&message, bytes, shim::WholeReply(reply));
}

/// Sends all segments but the last ones, which fit one message.
int AddSegments(DaemonConnection& connection, const uroce_mr_segment* segments, uint32_t count) {
  for (uint32_t first = 0; first < count; first += UROCE_MAX_MR_SEGMENTS) {
    const uint32_t left = count - first;
    const uint32_t some = left < UROCE_MAX_MR_SEGMENTS ? left : UROCE_MAX_MR_SEGMENTS;
    const uroce_add_mr_segments body = {.first = first, .segment_count = some};
    uroce_reply answer;
    const int error =
        CallWithSegments(connection, UROCE_ADD_MR_SEGMENTS, body, segments + first, some, answer);
    if (error != 0) return error;
  }
  return 0;
}

int RegisterRegion(void* connection, const uroce_reg_mr& region, const uroce_mr_segment* segments,
                   uroce_reg_mr_reply& reply) {
  const uint32_t count = region.segment_count;
  const uint32_t before = count > UROCE_MAX_MR_SEGMENTS ? count - UROCE_MAX_MR_SEGMENTS : 0;
  int error = AddSegments(ConnectionOf(connection), segments, before);
  if (error != 0) return error;
  shim::ReplyOf<uroce_reg_mr_reply> answer;
  error = CallWithSegments(ConnectionOf(connection), UROCE_REG_MR, region, segments + before,
                           count - before, answer);
  if (error == 0) reply = answer.body;
  return error;
}

int DeregisterRegion(void* connection, uint32_t handle) {
  return shim::Call(ConnectionOf(connection), UROCE_DEREG_MR, uroce_handle{handle, 0});
}

/// Sends a request with an fd, or without one (-1).
bool SendLend(int socket, uroce_lend request, int fd) {
  iovec part = {&request, sizeof(request)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof(request));
}

/// A thread of this connection answers in the daemon, not the thread that answers commands.
int Lend(void* connection, const uroce_lend& request, int fd, uroce_lend_reply& reply) {
  const shim::ErrnoKeeper keeper;
  const int socket = ConnectionOf(connection).memory_socket();
  if (!ConnectionOf(connection).CheckAlive() || !SendLend(socket, request, fd)) return EIO;
  ssize_t received;
  do {
    received = recv(socket, &reply, sizeof(reply), 0);
  } while (received < 0 && errno == EINTR);
  return received == static_cast<ssize_t>(sizeof(reply)) ? shim::ErrnoOf(reply.error) : EIO;
}

int SendMemoryFd(void* connection, int fd) {
  uroce_lend request = {};
  request.what = UROCE_LEND_MEMORY;
  uroce_lend_reply reply;
  return Lend(connection, request, fd, reply);
}

int OpenCopies(void* connection) { return shim::OpenOwnCopies(ConnectionOf(connection)); }

int OpenStage(void* connection, uint64_t address) {
  return gpu::OpenStage(ConnectionOf(connection), address);
}

int ShareFile(void* connection, const SharedFile& file, SharedGrant& grant) {
  const uroce_lend request = {.what = UROCE_LEND_FILE,
                              .writable = file.writable ? 1u : 0u,
                              .vma_start = file.vma.start,
                              .vma_end = file.vma.end,
                              .offset = file.offset,
                              .length = file.length};
  uroce_lend_reply reply;
  const int error = Lend(connection, request, file.fd, reply);
  if (error != 0) return error;
  grant = {.handle = reply.segment, .offset = reply.offset, .length = reply.length};
  return 0;
}

}  // namespace

int LendXrcFile(DaemonConnection& connection, int fd, uint32_t* file) {
  const RegistryLock lock;
  uroce_lend request = {};
  request.what = UROCE_LEND_XRC_FILE;
  uroce_lend_reply reply;
  const int error = Lend(&connection, request, fd, reply);
  if (error == 0) *file = reply.segment;
  return error;
}

Daemon DaemonOf(DaemonConnection& connection) {
  return {.connection = &connection,
          .userfaultfd_device = connection.userfaultfd_device(),
          .create_segment = CreateSegment,
          .destroy_segment = DestroySegment,
          .trim_segment = TrimSegment,
          .register_region = RegisterRegion,
          .deregister_region = DeregisterRegion,
          .send_memory_fd = SendMemoryFd,
          .open_copies = OpenCopies,
          .open_stage = OpenStage,
          .share_file = ShareFile};
}

}  // namespace uroce::memory

// ---- Memory regions ----
// ibv_rereg_mr(3), ibv_advise_mr(3).

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace uroce::shim {
namespace {

UROCE_REAL(ibv_reg_mr, "IBVERBS_1.1");
UROCE_REAL(ibv_reg_mr_iova, "IBVERBS_1.7");
UROCE_REAL(ibv_reg_mr_iova2, "IBVERBS_1.8");
UROCE_REAL(ibv_reg_dmabuf_mr, "IBVERBS_1.12");
UROCE_REAL(ibv_rereg_mr, "IBVERBS_1.1");
UROCE_REAL(ibv_dereg_mr, "IBVERBS_1.1");

// Verbs of libibverbs 1.15 and 1.17, which older headers do not declare.

/// ibv_mr_init_attr, as far as we read it.
struct RegionAttributes {
  size_t length;
  int access;
  uint64_t given;  ///< Which of the members below are there, and of those behind them.
  uint64_t iova;
  void* addr;
  int fd;
  uint64_t fd_offset;
  void* dma_handle;
  void* buffer;
};
constexpr uint64_t kGivenIova = 1 << 0;
constexpr uint64_t kGivenAddr = 1 << 1;
constexpr uint64_t kGivenFd = 1 << 2;
constexpr uint64_t kGivenFdOffset = 1 << 3;
constexpr uint64_t kGivenBuffer = 1 << 5;

using RegMrEx = ibv_mr*(ibv_pd*, RegionAttributes*);
using RegBufMr = ibv_mr*(ibv_pd*, void* buffer, void* addr, size_t length, int access);
constinit RealFunction<RegMrEx> real_reg_mr_ex("ibv_reg_mr_ex", "IBVERBS_1.15");
constinit RealFunction<RegBufMr> real_reg_buf_mr("ibv_reg_buf_mr", "IBVERBS_1.17");

/// Regions with on-demand paging, for advice.
pthread_mutex_t g_on_demand_mutex = PTHREAD_MUTEX_INITIALIZER;
MemoryRegion* g_on_demand = nullptr;

bool IsOnDemand(const MemoryRegion& mr) { return (mr.request.access & IBV_ACCESS_ON_DEMAND) != 0; }

void Unlist(MemoryRegion& mr) {
  const MutexLock lock(g_on_demand_mutex);
  for (MemoryRegion** place = &g_on_demand; *place != nullptr; place = &(*place)->next_on_demand) {
    if (*place != &mr) continue;
    *place = mr.next_on_demand;
    return;
  }
}

void ListIfOnDemand(MemoryRegion& mr) {
  if (!IsOnDemand(mr)) return;
  const MutexLock lock(g_on_demand_mutex);
  mr.next_on_demand = g_on_demand;
  g_on_demand = &mr;
}

memory::Daemon DaemonOf(const ibv_context* context) {
  return memory::DaemonOf(*Ours(const_cast<ibv_context*>(context))->connection);
}

/// Finds out whether the memory of `request` is a GPU's. Returns 0, or EFAULT where it is in part.
int FindDevice(memory::MemoryRequest& request) {
  const gpu::Residence residence = gpu::FindMemory(request.addr, request.length);
  request.is_device = residence == gpu::Residence::kDevice;
  if (residence != gpu::Residence::kBoth) return 0;
  Log("0x%llx+%llu is memory of a GPU in part", static_cast<unsigned long long>(request.addr),
      static_cast<unsigned long long>(request.length));
  return EFAULT;
}

ibv_mr* Register(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned access) {
  memory::MemoryRequest request = {.pd = pd->handle,
                                   .access = access,
                                   .addr = reinterpret_cast<uintptr_t>(addr),
                                   .length = length,
                                   .iova = iova};
  const int error = FindDevice(request);
  return error == 0 ? RegisterRegion(pd, addr, request) : FailWith(error);
}

/// Of a DMA-buf whose bytes the CPU can access.
ibv_mr* RegisterMapped(ibv_pd* pd, uint64_t offset, int fd, memory::MemoryRequest& request) {
  const bool writes = (request.access & IBV_ACCESS_LOCAL_WRITE) != 0;
  gpu::DmaBuf* const buffer = gpu::MapDmaBuf(fd, offset, request.length, writes, &request.addr);
  if (buffer == nullptr) return nullptr;
  request.is_device = true;
  ibv_mr* const mr = RegisterRegion(pd, reinterpret_cast<void*>(offset), request);
  if (mr == nullptr) {
    gpu::UnmapDmaBuf(buffer);
  } else {
    Ours(mr)->dma_buf = buffer;
  }
  return mr;
}

/// A DMA-buf of a GPU is reached by the address of its memory, which programs give as `iova`: the
/// file tells neither the address nor the bytes. `offset` is that of `iova` in the file. Errors: as
/// of the kernel (EBADF: no open file; EINVAL: no DMA-buf, or another offset in the page), those of
/// MapDmaBuf, and those of RegisterRegion.
ibv_mr* RegisterDmabuf(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                       int access) {
  if (fcntl(fd, F_GETFD) < 0) return FailWith(EBADF);
  if (offset % memory::kPageBytes != iova % memory::kPageBytes) return FailWith(EINVAL);
  memory::MemoryRequest request = {.pd = pd->handle,
                                   .access = static_cast<unsigned>(access),
                                   .addr = iova,
                                   .length = length,
                                   .iova = iova};
  if (FindDevice(request) == 0 && request.is_device) {
    return RegisterRegion(pd, reinterpret_cast<void*>(offset), request);
  }
  if (!gpu::IsDmaBuf(fd)) return FailWith(EINVAL);
  return RegisterMapped(pd, offset, fd, request);
}

ibv_mr* RegisterDmabuf(ibv_pd* pd, const RegionAttributes& wanted) {
  const uint64_t offset = (wanted.given & kGivenFdOffset) != 0 ? wanted.fd_offset : 0;
  const bool has_others = (wanted.given & ~(kGivenIova | kGivenFd | kGivenFdOffset)) != 0;
  if (has_others || (wanted.given & kGivenIova) == 0) return FailWith(EINVAL);
  return RegisterDmabuf(pd, offset, wanted.length, wanted.iova, wanted.fd, wanted.access);
}

/// Of memory of the program, also from ibv_alloc_buf. DMA handles are for devices.
ibv_mr* Register(ibv_pd* pd, const RegionAttributes& wanted) {
  constexpr uint64_t kServed = kGivenIova | kGivenAddr | kGivenBuffer | kGivenFd | kGivenFdOffset;
  if ((wanted.given & ~kServed) != 0) return FailWith(EOPNOTSUPP);
  if ((wanted.given & kGivenFd) != 0) return RegisterDmabuf(pd, wanted);
  if ((wanted.given & kGivenAddr) == 0) return FailWith(EINVAL);
  const bool is_of_buffer = (wanted.given & kGivenBuffer) != 0;
  if (is_of_buffer && !MayRegister(pd, wanted.buffer, wanted.addr, wanted.length)) {
    return FailWith(EINVAL);
  }
  const bool has_iova = (wanted.given & kGivenIova) != 0;
  return Register(pd, wanted.addr, wanted.length,
                  has_iova ? wanted.iova : reinterpret_cast<uintptr_t>(wanted.addr),
                  static_cast<unsigned>(wanted.access));
}

/// Has posts copy payload of the region, if the daemon maps no part of it (the copied parts of
/// others are small), and no access waits: a post must not.
void ListIfCopied(const MemoryRegion& mr) {
  const memory::MemoryRequest& request = mr.request;
  if (!mr.registration.is_copied) return;
  const bool is_zero_based = (request.access & IBV_ACCESS_ZERO_BASED) != 0;
  Ours(mr.verbs.context)
      ->connection->copied_regions()
      .Add({
          .lkey = mr.verbs.lkey,
          .pd = request.pd,
          .iova = is_zero_based ? 0 : request.iova,
          .start = request.addr,
          .length = request.length,
      });
}

int Deregister(MemoryRegion& mr) {
  if (mr.is_imported) return EINVAL;
  DaemonConnection& connection = *Ours(mr.verbs.context)->connection;
  connection.copied_regions().Remove(mr.verbs.lkey);
  const int error = memory::DeregisterMemory(memory::DaemonOf(connection), mr.registration);
  if (error != 0 && connection.state() != ConnectionState::kDaemonGone) {
    ListIfCopied(mr);
    return error;
  }
  if (IsOnDemand(mr)) Unlist(mr);
  if (mr.users_of_memory != nullptr) __atomic_fetch_sub(mr.users_of_memory, 1, __ATOMIC_RELEASE);
  if (mr.dma_buf != nullptr) gpu::UnmapDmaBuf(mr.dma_buf);
  Free(&mr);
  return 0;
}

/// Sets what `mr` is to become. Returns 0 or an errno.
int PlanChange(const MemoryRegion& mr, int flags, const ibv_pd* pd, const void* addr, size_t length,
               int access, memory::MemoryRequest& request) {
  constexpr int kKnown =
      IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
  if (flags == 0 || (flags & ~kKnown) != 0 || mr.is_imported || mr.is_null) return EINVAL;
  // libibverbs refuses both: no memory, and rights that the flags do not announce.
  const bool is_moved = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  if (is_moved && (addr == nullptr || length == 0)) return EINVAL;
  if (access != 0 && (flags & IBV_REREG_MR_CHANGE_ACCESS) == 0) return EINVAL;
  request = mr.request;
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) {
    if (pd == nullptr || pd->context != mr.verbs.context) return EINVAL;
    request.pd = pd->handle;
  }
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) request.access = static_cast<unsigned>(access);
  if (is_moved) {
    // Device memory and DMA-bufs cannot be replaced.
    if (mr.users_of_memory != nullptr || mr.dma_buf != nullptr) return EINVAL;
    request.addr = request.iova = reinterpret_cast<uintptr_t>(addr);
    request.length = length;
  }
  return 0;
}

/// Returns 0 or an errno, and then nothing has changed.
int Reregister(MemoryRegion& mr, int flags, ibv_pd* pd, void* addr, size_t length, int access) {
  memory::MemoryRequest request;
  int error = PlanChange(mr, flags, pd, addr, length, access, request);
  if (error != 0) return error;
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) error = FindDevice(request);
  if (error != 0) return error;
  Ours(mr.verbs.context)->connection->copied_regions().Remove(mr.verbs.lkey);
  error = memory::ReregisterMemory(DaemonOf(mr.verbs.context), request, mr.registration);
  if (error != 0) {
    ListIfCopied(mr);
    return error;
  }
  if (IsOnDemand(mr)) Unlist(mr);
  mr.request = request;
  ListIfOnDemand(mr);
  ListIfCopied(mr);
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) mr.verbs.pd = pd;
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
    mr.verbs.addr = addr;
    mr.verbs.length = length;
  }
  return 0;
}

/// Checks whether advice for a part of an on-demand region of `pd` may be followed: 0 or an errno.
/// `start` is set to the part's address.
int CheckAdvice(const ibv_pd& pd, bool writes, const ibv_sge& sge, uint64_t* start) {
  const MutexLock lock(g_on_demand_mutex);
  const MemoryRegion* mr = g_on_demand;
  while (mr != nullptr && mr->verbs.lkey != sge.lkey) mr = mr->next_on_demand;
  if (mr == nullptr) return ENOENT;
  const bool is_allowed = mr->request.pd == pd.handle && mr->verbs.context == pd.context &&
                          (!writes || (mr->request.access & IBV_ACCESS_LOCAL_WRITE) != 0);
  if (!is_allowed) return EPERM;
  const uint64_t offset = sge.addr - mr->request.iova;
  const bool is_inside = offset <= mr->request.length && sge.length <= mr->request.length - offset;
  *start = mr->request.addr + offset;
  return is_inside ? 0 : EINVAL;
}

/// Brings pages in as an access would. False: no memory is mapped there.
bool Prefetch(uint64_t address, uint32_t length, bool writes) {
  const ErrnoKeeper keeper;
  const uint64_t start = memory::PageDown(address);
  const uint64_t end = memory::PageUp(address + length);
  const int advice = writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  return madvise(reinterpret_cast<void*>(start), end - start, advice) == 0;
}

/// Says why the memory of `request` cannot be registered: there is none for the CPU, and none of a
/// GPU.
void TellFault(const memory::MemoryRequest& request) {
  if (request.is_device) return;
  Log("0x%llx+%llu is no memory of this program with the access 0x%x, and %s",
      static_cast<unsigned long long>(request.addr),
      static_cast<unsigned long long>(request.length), request.access,
      gpu::FoundDriver() != nullptr ? "the GPU's driver knows it as none of a GPU"
                                    : "no driver of a GPU is loaded");
}

}  // namespace

ibv_mr* RegisterRegion(ibv_pd* pd, void* addr, const memory::MemoryRequest& request) {
  auto* mr = Make<MemoryRegion>();
  if (mr == nullptr) return FailWith(ENOMEM);
  mr->request = request;
  const int error = memory::RegisterMemory(DaemonOf(pd->context), request, mr->registration);
  if (error != 0) {
    if (error == EFAULT) TellFault(request);
    Free(mr);
    return FailWith(error);
  }
  const memory::MemoryRegistration& made = mr->registration;
  if (made.limited_bytes != 0) {
    Log("region 0x%x: %llu of %llu bytes are copied on every access (see uroce mr)", made.lkey,
        static_cast<unsigned long long>(made.limited_bytes),
        static_cast<unsigned long long>(request.length));
  }
  mr->verbs = {pd->context, pd, addr, request.length, made.handle, made.lkey, made.rkey};
  ListIfOnDemand(*mr);
  ListIfCopied(*mr);
  return &mr->verbs;
}

// ibv_alloc_null_mr(3): any address of any length, for scatter entries only, so it has no rkey.
ibv_mr* AllocNullMr(ibv_pd* pd) {
  auto* mr = Make<MemoryRegion>();
  if (mr == nullptr) return FailWith(ENOMEM);
  const memory::Daemon daemon = DaemonOf(pd->context);
  const uroce_mr_segment all = {.length = UINT64_MAX, .mode = UROCE_MR_NULL, .segment = UROCE_NONE};
  uroce_reg_mr_reply made;
  const int error = daemon.register_region(daemon.connection,
                                           {.pd = pd->handle,
                                            .access = IBV_ACCESS_LOCAL_WRITE,
                                            .length = UINT64_MAX,
                                            .segment_count = 1,
                                            .replaces = UROCE_NONE},
                                           &all, made);
  if (error != 0) {
    Free(mr);
    return FailWith(error);
  }
  mr->is_null = true;
  mr->registration.handle = made.handle;
  mr->verbs = {pd->context, pd, nullptr, SIZE_MAX, made.handle, made.lkey, 0};
  return &mr->verbs;
}

int AdviseMr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* sges,
             uint32_t num_sge) {
  if ((flags & ~uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0 || num_sge == 0) return EINVAL;
  if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return EOPNOTSUPP;
  const bool writes = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  // Without FLUSH the advice is a hint, and failures are not reported.
  const bool must_tell = (flags & IBV_ADVISE_MR_FLAG_FLUSH) != 0;
  for (uint32_t i = 0; i < num_sge; ++i) {
    uint64_t start;
    const int error = CheckAdvice(*pd, writes, sges[i], &start);
    if (error != 0) return error;
    if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) continue;
    if (!Prefetch(start, sges[i].length, writes) && must_tell) return EFAULT;
  }
  return 0;
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

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
  if (IsOurs(pd->context)) return RegisterDmabuf(pd, offset, length, iova, fd, access);
  return real_ibv_reg_dmabuf_mr.CallOr(nullptr, pd, offset, length, iova, fd, access);
}

// The names in C++ are ours: newer headers declare libibverbs' own with types of theirs.
ibv_mr* ExportedRegMrEx(ibv_pd* pd, RegionAttributes* attributes) __asm__("ibv_reg_mr_ex");
ibv_mr* ExportedRegBufMr(ibv_pd* pd, void* buffer, void* addr, size_t length,
                         int access) __asm__("ibv_reg_buf_mr");

UROCE_EXPORT ibv_mr* ExportedRegMrEx(ibv_pd* pd, RegionAttributes* attributes) {
  return IsOurs(pd->context) ? Register(pd, *attributes)
                             : real_reg_mr_ex.CallOr(nullptr, pd, attributes);
}

UROCE_EXPORT ibv_mr* ExportedRegBufMr(ibv_pd* pd, void* buffer, void* addr, size_t length,
                                      int access) {
  if (!IsOurs(pd->context)) {
    return real_reg_buf_mr.CallOr(nullptr, pd, buffer, addr, length, access);
  }
  if (!MayRegister(pd, buffer, addr, length)) return FailWith(EINVAL);
  return Register(pd, addr, length, reinterpret_cast<uintptr_t>(addr),
                  static_cast<unsigned>(access));
}

UROCE_EXPORT int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length,
                              int access) {
  if (!IsOurs(mr->context)) {
    return real_ibv_rereg_mr.CallOr(IBV_REREG_MR_ERR_INPUT, mr, flags, pd, addr, length, access);
  }
  const int error = Reregister(*Ours(mr), flags, pd, addr, length, access);
  if (error == 0) return 0;
  errno = error;
  return IBV_REREG_MR_ERR_INPUT;  // Nothing has changed.
}

UROCE_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  return IsOurs(mr->context) ? Deregister(*Ours(mr)) : real_ibv_dereg_mr.CallOr(ENOSYS, mr);
}

}  // extern "C"

namespace uroce::shim {

// ---- Memory windows ----
// ibv_alloc_mw(3), ibv_bind_mw(3). A bind is a work request of a queue pair (post.cc).

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
