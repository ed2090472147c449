// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/daemon_connection.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "verbs-shim/memory/memory.h"
#include "verbs-shim/support.h"

namespace uroce::shim {
namespace {

/// Makes a direct system call: libc's functions are hooked for files of the connection manager.
bool StatusOf(int fd, struct stat& status) {
  return syscall(SYS_newfstatat, fd, "", &status, AT_EMPTY_PATH) == 0;
}

}  // namespace

bool IsSealedMemory(int fd, uint64_t size_bytes) {
  const ErrnoKeeper keeper;
  // Only memory files have seals: from here on no file system can delay its answer.
  const long seals = syscall(SYS_fcntl, fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return false;
  struct stat status;
  struct statfs system;
  // Pages of hugetlbfs may be missing at access.
  return StatusOf(fd, status) && static_cast<uint64_t>(status.st_size) >= size_bytes &&
         fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

bool IsAnonymous(int fd) {
  const ErrnoKeeper keeper;
  struct stat status;
  return StatusOf(fd, status) && (status.st_mode & S_IFMT) == 0;
}

// ---- The connection ----

namespace {

constexpr uint32_t kMaxFds = 3 + UROCE_MAX_WORKERS;

pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
DaemonConnection* g_connection = nullptr;  // The newest connection.
bool g_fork_handler_is_set = false;

const char* SocketPath() {
  const char* path = secure_getenv("UROCE_SOCKET");
  return path != nullptr && path[0] != '\0' ? path : UROCE_DEFAULT_SOCKET;
}

void CloseAll(const int* fds, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) close(fds[i]);
}

int ConnectSocket(const char* path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const size_t length_bytes = strlen(path);
  if (length_bytes >= sizeof(address.sun_path)) {
    Log("socket path is too long: %s", path);
    return -1;
  }
  memcpy(address.sun_path, path, length_bytes);  // The rest is zero already.
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  int result;
  do {
    result = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return fd;
  Log("no daemon at %s: %s", path, strerror(errno));
  close(fd);
  return -1;
}

bool SendAll(int fd, const void* data, size_t size_bytes) {
  ssize_t sent;
  do {
    sent = send(fd, data, size_bytes, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(size_bytes);
}

/// Inode of a socket; 0: the fd is none. No other socket has it while this one lives.
uint64_t InodeOfSocket(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

/// Receives one datagram and its fds, at most kMaxFds. Returns its bytes; 0 or less: no peer is
/// left.
ssize_t ReceiveWithFds(int fd, void* data, size_t size_bytes, int* fds, uint32_t* fd_count) {
  *fd_count = 0;
  iovec part = {data, size_bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))];
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  // Excludes the padding after the last fd, where the kernel would store one more.
  message.msg_controllen = CMSG_LEN(kMaxFds * sizeof(int));
  ssize_t received;
  do {
    // After a peer closed with unread requests, the first call fails once; then come its last
    // messages.
    received = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && (errno == EINTR || errno == ECONNRESET));
  if (received < 0) return received;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const auto count = static_cast<uint32_t>((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(fds + *fd_count, CMSG_DATA(c), count * sizeof(int));
    *fd_count += count;
  }
  return received;
}

/// The program itself only reports that there is no device. It may ask for them again and again.
void WarnOfRefusal(const char* reason) {
  static bool was_said = false;
  if (__atomic_exchange_n(&was_said, true, __ATOMIC_RELAXED)) return;
  Warn("no devices of uroced for this program: %s", reason);
}

}  // namespace

DaemonConnection* DaemonConnection::Current() {
  const MutexLock lock(g_mutex);
  return g_connection != nullptr && g_connection->is_live() ? g_connection : nullptr;
}

DaemonConnection* DaemonConnection::Get() {
  const CancelOff cancel_off;
  const MutexLock lock(g_mutex);
  if (g_connection != nullptr && g_connection->CheckAlive()) return g_connection;
  if (!g_fork_handler_is_set) {
    if (pthread_atfork(nullptr, nullptr, &DaemonConnection::InChild) != 0) return nullptr;
    g_fork_handler_is_set = true;
  }
  DaemonConnection* connection = Connect();
  if (connection == nullptr) return nullptr;
  connection->older_ = g_connection;
  g_connection = connection;
  return connection;
}

DaemonConnection* DaemonConnection::Connect() {
  const int fd = ConnectSocket(SocketPath());
  if (fd < 0) return nullptr;
  auto* connection = Make<DaemonConnection>();
  if (connection == nullptr) {
    close(fd);
    return nullptr;
  }
  connection->control_fd_ = fd;
  connection->control_inode_ = InodeOfSocket(fd);
  if (connection->SayHello()) {
    memory::PrepareForRegistrations();
    return connection;
  }
  close(fd);
  Free(connection);
  return nullptr;
}

bool DaemonConnection::SayHello() {
  const uroce_hello hello = {UROCE_ABI_VERSION, 0};
  uroce_hello_reply reply;
  int fds[kMaxFds];
  uint32_t fd_count = kMaxFds;
  const int error = Call(*this, UROCE_HELLO, hello, &reply, fds, &fd_count);
  if (error != 0) {
    Log("the daemon refuses this program: %s", strerror(error));
    return false;
  }
  if (TakeHelloFds(reply, fds, fd_count)) return true;
  CloseAll(fds, fd_count);
  return false;
}

bool DaemonConnection::TakeHelloFds(const uroce_hello_reply& hello, const int* fds,
                                    uint32_t fd_count) {
  const uint32_t workers = hello.worker_count;
  if (hello.abi_version != UROCE_ABI_VERSION) {
    char reason[120];
    snprintf(
        reason, sizeof(reason),
        "uroced speaks version %u of the protocol, liburoce.so %u; use the same release of both",
        hello.abi_version, UROCE_ABI_VERSION);
    WarnOfRefusal(reason);
    return false;
  }
  if (workers == 0 || workers > UROCE_MAX_WORKERS || hello.device_count > UROCE_MAX_DEVICES) {
    Log("the daemon has %u workers and %u devices, which cannot be", workers, hello.device_count);
    return false;
  }
  const bool has_userfaultfd = hello.has_userfaultfd != 0;
  if (fd_count != 2 + workers + (has_userfaultfd ? 1 : 0)) {
    Log("the daemon sent %u fds, which is not what it should", fd_count);
    return false;
  }
  for (uint32_t worker = 0; worker < workers; ++worker) {
    if (!IsAnonymous(fds[1 + worker])) {
      Log("the daemon sent fd %u, which wakes no worker", 1 + worker);
      return false;
    }
  }
  if (!MapArena(fds[0], workers)) return false;
  close(fds[0]);
  memcpy(wake_fds_, fds + 1, workers * sizeof(int));
  memory_socket_ = fds[1 + workers];
  userfaultfd_device_ = has_userfaultfd ? fds[2 + workers] : -1;
  worker_count_ = workers;
  device_count_ = hello.device_count;
  return true;
}

namespace {

/// Steps in which the arena becomes accessible.
constexpr uint64_t kArenaStep = 1 << 20;
static_assert(UROCE_ARENA_BYTES % kArenaStep == 0);

/// The least of the arena that is of use: doorbells and a few queues.
constexpr uint64_t kLeastArenaBytes = 16 * kArenaStep;

/// Maps the first bytes of the arena without access: mlockall(2) would bring in all of it.
void* MapWithoutAccess(int arena_fd, uint64_t size_bytes) {
  return mmap(nullptr, size_bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, arena_fd, 0);
}

/// Maps a part of the arena where all of it finds no room: an eighth of what the process may map
/// (`ulimit -v`) at most, so that the program keeps the rest, or less. Sets `size_bytes`.
/// MAP_FAILED with errno: there is no room, or no such limit.
void* MapUnderLimit(int arena_fd, uint64_t* size_bytes) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return MAP_FAILED;
  const uint64_t part = limit.rlim_cur / 8;
  void* memory = MAP_FAILED;
  for (uint64_t bytes = UROCE_ARENA_BYTES; bytes >= kLeastArenaBytes; bytes /= 2) {
    if (bytes > part) continue;
    memory = MapWithoutAccess(arena_fd, bytes);
    *size_bytes = bytes;
    if (memory != MAP_FAILED) break;
  }
  return memory;
}

}  // namespace

bool DaemonConnection::MapArena(int arena_fd, uint32_t workers) {
  if (!IsSealedMemory(arena_fd, UROCE_ARENA_BYTES)) {
    Log("the daemon's arena is not what it should be");
    return false;
  }
  uint64_t size_bytes = UROCE_ARENA_BYTES;
  void* memory = MapWithoutAccess(arena_fd, size_bytes);
  if (memory == MAP_FAILED && errno == ENOMEM) memory = MapUnderLimit(arena_fd, &size_bytes);
  if (memory == MAP_FAILED) {
    char reason[120];
    snprintf(reason, sizeof(reason), "no room for %llu MiB of addresses (see ulimit -v): %s",
             static_cast<unsigned long long>(size_bytes >> 20), strerror(errno));
    WarnOfRefusal(reason);
    return false;
  }
  // A child must not post on its parent's queues, and a core file need not hold 4 GiB of holes.
  madvise(memory, size_bytes, MADV_DONTFORK);
  madvise(memory, size_bytes, MADV_DONTDUMP);
  arena_ = static_cast<uint8_t*>(memory);
  arena_bytes_ = size_bytes;
  if (Reach(0, UROCE_DOORBELLS_OFFSET + workers * sizeof(uroce_doorbells))) return true;
  Log("cannot access the arena: %s", strerror(errno));
  munmap(memory, size_bytes);
  return false;
}

// The daemon gives out the lowest free part, so the part in use stays about as long as it is large.
bool DaemonConnection::Reach(uint64_t offset, uint64_t size_bytes) {
  if (offset % UROCE_LINE != 0 || offset > UROCE_ARENA_BYTES) return false;
  if (size_bytes > UROCE_ARENA_BYTES - offset) return false;
  const uint64_t end = (offset + size_bytes + kArenaStep - 1) / kArenaStep * kArenaStep;
  if (end > arena_bytes_) {
    Log("a queue at %llu MiB of the arena is out of reach: the limit of address space (ulimit -v) "
        "has room for %llu MiB",
        static_cast<unsigned long long>(offset >> 20),
        static_cast<unsigned long long>(arena_bytes_ >> 20));
    return false;
  }
  uint64_t reached = rings::LoadAcquire(reached_bytes_);
  if (end <= reached) return true;
  // Writable pages are readable. valgrind's leak check skips mappings without PROT_READ: a look at
  // all words would touch each page, and would fault at each word in a forked child.
  if (mprotect(arena_ + reached, end - reached, PROT_WRITE) != 0) return false;
  // Threads may do this at once: each has made accessible all up to its own end.
  while (reached < end && !__atomic_compare_exchange_n(&reached_bytes_, &reached, end, false,
                                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
  return true;
}

uroce_doorbells* DaemonConnection::doorbells(uint32_t worker) const {
  return reinterpret_cast<uroce_doorbells*>(arena_ + UROCE_DOORBELLS_OFFSET) + worker;
}

int DaemonConnection::Command(void* request, size_t request_bytes, const ReplyRoom& reply, int* fds,
                              uint32_t* fd_count) {
  const CancelOff cancel_off;  // The reply would go to the next command.
  const int before = errno;
  auto* header = static_cast<uroce_request*>(request);
  header->size = static_cast<uint32_t>(request_bytes);
  const uint32_t room = fd_count != nullptr ? *fd_count : 0;
  int received_fds[kMaxFds];
  uint32_t received_count = 0;
  const int error = Exchange(request, request_bytes, reply, received_fds, &received_count);
  const uint32_t kept = error != 0 ? 0 : received_count < room ? received_count : room;
  if (kept != 0) memcpy(fds, received_fds, kept * sizeof(int));
  CloseAll(received_fds + kept, received_count - kept);
  if (fd_count != nullptr) *fd_count = kept;
  errno = error != 0 ? error : before;  // As after the system call that an adapter's verb makes.
  return error;
}

int DaemonConnection::Exchange(const void* request, size_t request_bytes, const ReplyRoom& room,
                               int* fds, uint32_t* fd_count) {
  // Checked before the lock: in a forked child, a thread that no longer exists may hold the lock.
  if (!is_live()) return EIO;
  const MutexLock lock(command_mutex_);
  if (!is_live()) return EIO;
  ssize_t received = 0;
  // EPIPE is no error: a client that was turned away finds the reason in the socket, sent earlier.
  if (HoldsSocket() && (SendAll(control_fd_, request, request_bytes) || errno == EPIPE)) {
    received = ReceiveWithFds(control_fd_, room.reply, room.most_bytes, fds, fd_count);
  }
  if (received < static_cast<ssize_t>(sizeof(uroce_reply))) {
    MarkGone();
    return EIO;
  }
  auto* header = static_cast<uroce_reply*>(room.reply);
  if (header->error != 0) {
    header->text[sizeof(header->text) - 1] = '\0';
    const char* reason = header->text[0] != '\0' ? header->text : strerror(header->error);
    const uint32_t command = static_cast<const uroce_request*>(request)->command;
    if (command == UROCE_HELLO) WarnOfRefusal(reason);
    Log("command %u: %s", command, reason);
    return ErrnoOf(header->error);
  }
  const auto bytes = static_cast<size_t>(received);
  return bytes == header->size && bytes >= room.least_bytes ? 0 : EIO;
}

bool DaemonConnection::CheckAlive() {
  if (!is_live()) return false;
  const ErrnoKeeper keeper;
  const CancelOff cancel_off;
  pollfd control = {control_fd_, POLLRDHUP, 0};
  const bool hung_up =
      poll(&control, 1, 0) > 0 && (control.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
  if (hung_up || !HoldsSocket()) MarkGone();
  return is_live();
}

void DaemonConnection::Wake(int wake_fd) {
  const ErrnoKeeper keeper;
  const CancelOff cancel_off;  // The caller holds the lock of a queue.
  if (!is_live()) return;
  if (!HoldsSocket()) return MarkGone();
  const uint64_t one = 1;
  const ssize_t ignored = write(wake_fd, &one, sizeof(one));  // Fails only when readable already.
  (void)ignored;
}

bool DaemonConnection::HoldsSocket() const { return InodeOfSocket(control_fd_) == control_inode_; }

void DaemonConnection::MarkGone() {
  uint32_t expected = static_cast<uint32_t>(ConnectionState::kLive);
  if (__atomic_compare_exchange_n(&state_, &expected,
                                  static_cast<uint32_t>(ConnectionState::kDaemonGone), false,
                                  __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    Log("the daemon is gone");
  }
}

// Makes async-signal-safe calls only: the parent may have had threads.
void DaemonConnection::InChild() {
  g_mutex = PTHREAD_MUTEX_INITIALIZER;
  // The daemon notices the parent's end when these sockets close, so the child must not hold them.
  for (DaemonConnection* connection = g_connection; connection != nullptr;
       connection = connection->older_) {
    rings::StoreRelaxed(connection->state_, static_cast<uint32_t>(ConnectionState::kForked));
    if (!connection->HoldsSocket()) continue;  // The parent had closed the fds.
    close(connection->control_fd_);
    close(connection->memory_socket_);
    CloseAll(connection->wake_fds_, connection->worker_count_);
    if (connection->userfaultfd_device_ >= 0) close(connection->userfaultfd_device_);
  }
  g_connection = nullptr;
}

}  // namespace uroce::shim
