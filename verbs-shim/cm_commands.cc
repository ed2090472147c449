// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/cm_commands.h"

#include <fcntl.h>
#include <rdma/rdma_user_cm.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pipeline/shm/abi/uroce_cm_commands.h"

namespace uroce::shim {
namespace {

/// The inode of a socket; 0: `fd` is no socket. Makes a direct system call, since libc's function
/// is hooked for these very files.
uint64_t InodeOf(int fd) {
  const ErrnoKeeper keeper;
  struct stat status;
  const long result = syscall(SYS_newfstatat, fd, "", &status, AT_EMPTY_PATH);
  return result == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

}  // namespace

constinit CmFiles::Chunk* CmFiles::chunks_[kChunks] = {};

bool CmFiles::Find(int fd, CmFile* file) {
  Chunk* chunk = ChunkOf(fd);
  if (chunk == nullptr) return false;
  Slot& slot = chunk->slots[static_cast<unsigned>(fd) % kChunkSlots];
  uint64_t inode = rings::LoadAcquire(slot.inode);
  if (inode == 0) return false;
  file->connection = rings::LoadRelaxed(slot.file.connection);
  file->handle = rings::LoadRelaxed(slot.file.handle);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (rings::LoadRelaxed(slot.inode) != inode) return false;  // Another's now, who is making it.
  if (InodeOf(fd) == inode) return true;
  // The fd is closed and its number reused. Its entry is removed, unless a new one was added.
  __atomic_compare_exchange_n(&slot.inode, &inode, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return false;
}

bool CmFiles::Add(int fd, const CmFile& file) {
  const unsigned number = static_cast<unsigned>(fd);
  Chunk* chunk = ChunkOf(fd);
  if (chunk == nullptr) chunk = MakeChunk(number / kChunkSlots);
  if (chunk == nullptr) return false;
  Slot& slot = chunk->slots[number % kChunkSlots];
  rings::StoreRelaxed(slot.inode, uint64_t{0});
  __atomic_thread_fence(__ATOMIC_RELEASE);
  rings::StoreRelaxed(slot.file.connection, file.connection);
  rings::StoreRelaxed(slot.file.handle, file.handle);
  rings::StoreRelease(slot.inode, InodeOf(fd));
  return true;
}

CmFiles::Chunk* CmFiles::MakeChunk(unsigned index) {
  if (index >= kChunks) return nullptr;
  auto* fresh = Make<Chunk>();
  if (fresh == nullptr) return nullptr;
  Chunk* expected = nullptr;
  if (__atomic_compare_exchange_n(&chunks_[index], &expected, fresh, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    return fresh;
  }
  Free(fresh);
  return expected;
}

// librdmacm writes commands to a file of the kernel; a command holds the address of its answer. The
// daemon executes the commands: this file sends them there, and stores the answers.

namespace {

constexpr char kNode[] = "/dev/infiniband/rdma_cm";

struct Request {
  uroce_request header;
  uroce_write_cm body;
  rdma_ucm_cmd_hdr command;
  uint8_t in[UROCE_MAX_CM_IN + UROCE_MAX_CM_OPTION];
};

struct Response {
  uroce_reply header;
  uroce_write_cm_reply body;
  uint8_t out[UROCE_MAX_CM_OUT];
};
static_assert(offsetof(Request, in) ==
              sizeof(uroce_request) + sizeof(uroce_write_cm) + sizeof(rdma_ucm_cmd_hdr));
static_assert(offsetof(Response, out) == sizeof(uroce_reply) + sizeof(uroce_write_cm_reply));

bool IsOff() {
  const char* value = secure_getenv("UROCE_CM");
  return value != nullptr && strcmp(value, "off") == 0;
}

/// The address of the answer. Null: the command has none.
void* ResponseOf(const rdma_ucm_cmd_hdr& command, const uint8_t* in) {
  size_t offset = 0;
  switch (command.cmd) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      offset = offsetof(rdma_ucm_create_id, response);
      break;
    case RDMA_USER_CM_CMD_DESTROY_ID:
    case RDMA_USER_CM_CMD_QUERY_ROUTE:
    case RDMA_USER_CM_CMD_INIT_QP_ATTR:
    case RDMA_USER_CM_CMD_GET_EVENT:
    case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
    case RDMA_USER_CM_CMD_LEAVE_MCAST:
    case RDMA_USER_CM_CMD_MIGRATE_ID:
    case RDMA_USER_CM_CMD_QUERY:
    case RDMA_USER_CM_CMD_JOIN_MCAST:
      break;  // The address of the answer comes first.
    default:
      return nullptr;
  }
  uint64_t address = 0;
  if (command.in < offset + sizeof(address)) return nullptr;
  memcpy(&address, in + offset, sizeof(address));
  return reinterpret_cast<void*>(address);
}

/// The command's own structure. Fields that a short command lacks are zero.
template <typename Command>
Command Read(const Request& request) {
  Command command = {};
  const size_t bytes = request.command.in < sizeof(command) ? request.command.in : sizeof(command);
  memcpy(&command, request.in, bytes);
  return command;
}

/// Appends the value of an option to the command, whose bytes in the request become `*bytes`.
/// Returns 0 or an errno.
int AddOption(Request& request, size_t* bytes) {
  const auto command = Read<rdma_ucm_set_option>(request);
  if (command.optlen > UROCE_MAX_CM_OPTION) return EINVAL;
  if (command.optlen == 0) return 0;
  if (command.optval == 0) return EFAULT;
  memcpy(request.in + *bytes, reinterpret_cast<const void*>(command.optval), command.optlen);
  *bytes += command.optlen;
  return 0;
}

/// Sets in the request the file that an id comes from. Returns 0 or an errno.
int NameOldFile(Request& request, const CmFile& file, int* old_fd) {
  CmFile old;
  *old_fd = static_cast<int>(Read<rdma_ucm_migrate_id>(request).fd);
  if (!CmFiles::Find(*old_fd, &old)) return ENOENT;
  if (old.connection != file.connection) return EINVAL;
  request.body.old_file = old.handle;
  return 0;
}

/// Reads bytes that signalled events: either no events are left, or the daemon has signalled again.
void TakeSignals(int fd, uint32_t count) {
  uint8_t signals[16];
  for (uint32_t left = count; left > 0;) {
    const size_t want = left < sizeof(signals) ? left : sizeof(signals);
    const ssize_t got = recv(fd, signals, want, MSG_DONTWAIT);
    if (got <= 0) return;
    left -= static_cast<uint32_t>(got);
  }
}

/// Records changes of the program's ids, after a command that has succeeded.
void Remember(const CmFile& file, const Request& request, const Response& reply) {
  CmIds& ids = file.connection->cm_ids();
  uint32_t created = 0;
  switch (request.command.cmd) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      memcpy(&created, reply.out, sizeof(created));
      return ids.Set(created, file.handle, Read<rdma_ucm_create_id>(request).uid);
    case RDMA_USER_CM_CMD_ACCEPT: {
      const auto accept = Read<rdma_ucm_accept>(request);
      if (accept.conn_param.valid != 0) ids.Set(accept.id, file.handle, accept.uid);
      return;
    }
    case RDMA_USER_CM_CMD_MIGRATE_ID:
      return ids.Move(Read<rdma_ucm_migrate_id>(request).id, file.handle);
    case RDMA_USER_CM_CMD_DESTROY_ID:
      return ids.Forget(Read<rdma_ucm_destroy_id>(request).id);
    default:
      return;
  }
}

/// Makes the daemon execute a command of `bytes` in `request.in`. Returns 0 or an errno.
int Execute(const CmFile& file, int fd, Request& request, size_t bytes) {
  int old_fd = -1;
  int error = 0;
  request.header.command = UROCE_WRITE_CM;
  request.body = {file.handle, file.handle};
  const void* in = request.in;
  void* response = ResponseOf(request.command, static_cast<const uint8_t*>(in));
  if (request.command.cmd == RDMA_USER_CM_CMD_SET_OPTION) error = AddOption(request, &bytes);
  if (request.command.cmd == RDMA_USER_CM_CMD_MIGRATE_ID) {
    error = NameOldFile(request, file, &old_fd);
  }
  if (error != 0) return error;
  Response reply = {};
  error = file.connection->Command(&request, offsetof(Request, in) + bytes,
                                   {&reply, offsetof(Response, out), sizeof(reply)});
  if (error != 0) return error;
  TakeSignals(fd, reply.body.signals);
  TakeSignals(old_fd, reply.body.old_signals);
  const size_t answer = reply.body.response_bytes;
  if (reply.body.error != 0) return ErrnoOf(reply.body.error);
  Remember(file, request, reply);
  if (response == nullptr) return 0;
  if (answer > request.command.out || answer > sizeof(reply.out)) return EIO;
  memcpy(response, reply.out, answer);
  return 0;
}

/// Waits for an event as the file's flags say. Like a blocking system call, the wait can be
/// interrupted and cancelled. Returns 0 or an errno.
int AwaitEvent(int fd) {
  uint8_t signal;
  const ssize_t got = recv(fd, &signal, sizeof(signal), MSG_PEEK);
  // When the daemon's end is closed, the command reports what happened to the daemon.
  return got >= 0 || errno == ECONNRESET ? 0 : errno;
}

/// A call that the kernel executes holds its file: it goes on waiting when another thread has
/// destroyed the id, with its event, and closed the fd. rping ends while its event thread does so.
int WaitBehindClose() {
  pause();
  return EINTR;
}

int GetEvent(const CmFile& file, int fd, Request& request, size_t bytes) {
  for (int flags = fcntl(fd, F_GETFL); flags >= 0;) {
    // A forked child would wait for its parent's events.
    const int wait_error = file.connection->is_live() ? AwaitEvent(fd) : EIO;
    const bool blocks = (flags & O_NONBLOCK) == 0;
    if (wait_error == EBADF && blocks) return WaitBehindClose();
    if (wait_error != 0) return wait_error;
    const int error = Execute(file, fd, request, bytes);
    if (error != EAGAIN) return error;
    flags = fcntl(fd, F_GETFL);
    if (flags < 0 && blocks) return WaitBehindClose();
    if ((flags & O_NONBLOCK) != 0) return error;
    sched_yield();  // Another thread took the event, and has yet to read its signal.
  }
  return EBADF;
}

/// A program ends its ids as usual after the daemon is gone. Their events need no acknowledgement.
int EndWithoutDaemon(const CmFile& file, const Request& request) {
  static_assert(sizeof(rdma_ucm_destroy_id_resp) == sizeof(uint32_t));
  void* response = ResponseOf(request.command, request.in);
  if (response == nullptr || request.command.out < sizeof(uint32_t)) return EIO;
  memset(response, 0, sizeof(uint32_t));
  if (request.command.cmd == RDMA_USER_CM_CMD_DESTROY_ID) {
    file.connection->cm_ids().Forget(Read<rdma_ucm_destroy_id>(request).id);
  }
  return 0;
}

/// The devices are gone with the daemon: each id gets one event that says so.
int TellOfRemoval(const CmFile& file, const Request& request) {
  constexpr uint32_t kDeviceRemoval = 11;  // RDMA_CM_EVENT_DEVICE_REMOVAL
  rdma_ucm_event_resp event = {};
  uint64_t uid = 0;
  void* response = ResponseOf(request.command, request.in);
  const bool is_told = file.connection->state() == ConnectionState::kDaemonGone &&
                       response != nullptr &&
                       file.connection->cm_ids().TakeOne(file.handle, &event.id, &uid);
  if (!is_told) return EIO;
  event.event = kDeviceRemoval;
  event.uid = uid;
  const size_t room = request.command.out;
  memcpy(response, &event, room < sizeof(event) ? room : sizeof(event));
  return 0;
}

int ExecuteWithoutDaemon(const CmFile& file, const Request& request) {
  switch (request.command.cmd) {
    case RDMA_USER_CM_CMD_GET_EVENT:
      return TellOfRemoval(file, request);
    case RDMA_USER_CM_CMD_DESTROY_ID:
    case RDMA_USER_CM_CMD_LEAVE_MCAST:
      return EndWithoutDaemon(file, request);
    default:
      return EIO;
  }
}

/// Applies the flags of open(2) to an fd that has only FD_CLOEXEC.
bool SetFlags(int fd, int flags) {
  if ((flags & O_CLOEXEC) == 0 && fcntl(fd, F_SETFD, 0) != 0) return false;
  return (flags & O_NONBLOCK) == 0 || fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

}  // namespace

bool IsCmNode(const char* path) { return path != nullptr && strcmp(path, kNode) == 0; }

int OpenCm(int flags) {
  if (IsOff()) return kNotOurs;
  DaemonConnection* connection = DaemonConnection::Get();
  if (connection == nullptr) return kNotOurs;
  uroce_request request = {UROCE_OPEN_CM, 0};
  ReplyOf<uroce_handle> reply;
  int fd = -1;
  uint32_t fd_count = 1;
  int error = connection->Command(&request, sizeof(request), WholeReply(reply), &fd, &fd_count);
  if (error == 0 && fd_count != 1) error = EIO;
  if (error == 0 && (!SetFlags(fd, flags) || !CmFiles::Add(fd, {connection, reply.body.handle}))) {
    close(fd);
    error = EMFILE;
  }
  if (error == 0) return fd;
  errno = error;
  return -1;
}

ssize_t WriteCm(const CmFile& file, int fd, const void* data, size_t size_bytes) {
  Request request;
  int error = EINVAL;
  if (size_bytes >= sizeof(request.command)) {
    memcpy(&request.command, data, sizeof(request.command));
    const size_t in = request.command.in;
    if (in + sizeof(request.command) <= size_bytes) {
      const size_t bytes = in < UROCE_MAX_CM_IN ? in : UROCE_MAX_CM_IN;
      memcpy(request.in, static_cast<const uint8_t*>(data) + sizeof(request.command), bytes);
      request.command.in = static_cast<uint16_t>(bytes);
      const bool waits = request.command.cmd == RDMA_USER_CM_CMD_GET_EVENT;
      error = waits ? GetEvent(file, fd, request, bytes) : Execute(file, fd, request, bytes);
    }
  }
  if (error != 0 && !file.connection->is_live()) error = ExecuteWithoutDaemon(file, request);
  if (error == 0) return static_cast<ssize_t>(size_bytes);
  errno = error;
  return -1;
}

}  // namespace uroce::shim
