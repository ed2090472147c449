// SPDX-License-Identifier: Apache-2.0
// The socket on which a program hands over its memory and files.
#include "nic/control/memory_socket.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nic/base/reply.h"
#include "nic/base/user_limits.h"
#include "nic/objects/nic.h"
#include "nic/objects/resources.h"
#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/memory/memory_rest.h"
#include "pipeline/os/shared_memory.h"

namespace uroce::nic {
namespace {

constexpr uint64_t kMaxLentBytes = uint64_t{1} << 44;
constexpr uint64_t kLookBehindMappings = uint64_t{1} << 40;  // CAP_CHECKPOINT_RESTORE (Linux 5.9)

/// Whether `fd` allows the access. An fd opened with O_PATH allows none.
bool AllowsAccess(int fd, bool writable) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_PATH) != 0) return false;
  const int mode = flags & O_ACCMODE;
  return mode == O_RDWR || (mode == O_RDONLY && !writable);
}

/// Whether mincore(2) tells the calling thread which pages of the file are there. It tells owners
/// of a file and those who may write to it; of other files it says that all pages are there, which
/// is wrong for a page behind the end.
bool TellsPages(int fd, uint64_t file_bytes) {
  const uint64_t behind = (file_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  void* const page =
      mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(behind));
  if (page == MAP_FAILED) return false;
  unsigned char is_there = 1;
  const bool tells = mincore(page, kPageBytes, &is_there) == 0 && (is_there & 1) == 0;
  munmap(page, kPageBytes);
  return tells;
}

/// Which pages of a file in memory can be populated.
Populated PopulatedOf(int fd) {
  struct statfs file_system {};
  struct stat file {};
  if (fstatfs(fd, &file_system) != 0 || fstat(fd, &file) != 0) return Populated::kNone;
  if (file_system.f_type == HUGETLBFS_MAGIC) return Populated::kAll;
  const auto file_bytes = static_cast<uint64_t>(file.st_size);
  return TellsPages(fd, file_bytes) ? Populated::kPresent : Populated::kNone;
}

/// Finds the bytes of the file to map, in whole pages of its file system. Returns 0 or an errno.
int CheckFile(const uroce_lend& request, int fd, uint64_t& begin, uint64_t& end) {
  if (!AllowsAccess(fd, request.writable != 0)) return EINVAL;
  struct statfs file_system {};
  struct stat file {};
  if (fstatfs(fd, &file_system) != 0 || fstat(fd, &file) != 0) return errno;
  const bool is_memory = file_system.f_type == TMPFS_MAGIC || file_system.f_type == HUGETLBFS_MAGIC;
  if (!is_memory || !S_ISREG(file.st_mode)) return EINVAL;
  const auto page_bytes = static_cast<uint64_t>(file_system.f_bsize);
  const auto file_bytes = static_cast<uint64_t>(file.st_size);
  if (request.length == 0 || request.length > kMaxLentBytes || request.offset > file_bytes) {
    return EINVAL;
  }
  begin = request.offset / page_bytes * page_bytes;
  end = (request.offset + request.length + page_bytes - 1) / page_bytes * page_bytes;
  return end - begin <= kMaxLentBytes && end < file_bytes + page_bytes ? 0 : EINVAL;
}

/// The device and inode in a line of /proc/PID/maps.
struct SharedMapping {
  uint64_t device = 0;
  uint64_t inode = 0;
};

/// Looks for the mapping [vma_start, vma_end): it must be shared and allow the access now.
bool FindMapping(const Lender& lender, const uroce_lend& request, SharedMapping& found) {
  std::ifstream maps(absl::StrCat("/proc/", lender.pid, "/maps"));
  for (std::string line; std::getline(maps, line);) {
    uint64_t start = 0, end = 0, inode = 0;
    unsigned device_major = 0, device_minor = 0;
    char rights[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %*x %x:%x %" SCNu64, &start, &end,
                    rights, &device_major, &device_minor, &inode) != 6) {
      return false;
    }
    if (start != request.vma_start || end != request.vma_end) continue;
    found = {makedev(device_major, device_minor), inode};
    const bool may_write = rights[1] == 'w';
    return rights[0] == 'r' && rights[3] == 's' && (may_write || request.writable == 0);
  }
  return false;
}

}  // namespace

// A program can forge a path by its own mounts, but not the type of the file system, nor the
// behaviour of its files. In proc, only files that read a process's memory (mem, environ, pagemap)
// have positions that are addresses, with a valid upper half, and only mem of these is writable.
// Nothing else is tried on other files, since writing to them may have effects.
bool IsMemoryFile(int fd) {
  constexpr off_t kUpperHalf = INT64_MIN;
  struct statfs file_system {};
  return AllowsAccess(fd, true) && fstatfs(fd, &file_system) == 0 &&
         file_system.f_type == PROC_SUPER_MAGIC && lseek(fd, kUpperHalf, SEEK_SET) == kUpperHalf &&
         pwrite(fd, "", 0, 0) == 0;
}

bool ActForLender(const Lender& lender) { return ActFor(lender.user, kLookBehindMappings); }

// A seal against writes forbids to free pages, also by mappings that may write (shmem_fallocate and
// hugetlbfs_punch_hole of Linux). A file in memory that shrinks first says so to all who touch it,
// and only then frees pages; one of huge pages takes locks of its mappings before.
bool KeepsItsPages(int fd) {
  constexpr int kAgainstWrites = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
  struct statfs file_system {};
  struct statx status {};
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals >= 0 && (seals & kAgainstWrites) != 0) {
    if ((seals & F_SEAL_SHRINK) != 0) return true;
    return fstatfs(fd, &file_system) == 0 && file_system.f_type == TMPFS_MAGIC;
  }
  return statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &status) == 0 &&
         (status.stx_attributes & STATX_ATTR_IMMUTABLE) != 0;
}

int MapLentFile(const uroce_lend& request, const Fd& file, FilesToMap files, LentFile& lent) {
  uint64_t begin = 0, end = 0;
  if (const int error = CheckFile(request, file.get(), begin, end); error != 0) return error;
  if (files == FilesToMap::kKeepingPages && !KeepsItsPages(file.get())) return UROCE_LEND_FREEABLE;
  lent.populated = PopulatedOf(file.get());
  const bool writable = request.writable != 0;
  void* data = mmap(nullptr, end - begin, PROT_READ | (writable ? PROT_WRITE : 0),
                    MAP_SHARED | MAP_NORESERVE, file.get(), static_cast<off_t>(begin));
  if (data == MAP_FAILED) return errno;
  lent.mapping = Mapping(data, end - begin);
  lent.offset = begin;
  lent.writable = writable;
  return 0;
}

int FindXrcFile(const Fd& file, const std::shared_ptr<SideThread>& thread, XrcFile& found) {
  const int flags = fcntl(file.get(), F_GETFL);
  if (flags < 0 || (flags & O_PATH) != 0) return EBADF;
  struct statfs file_system {};
  if (fstatfs(file.get(), &file_system) != 0) return errno;
  if (file_system.f_type == FUSE_SUPER_MAGIC) return EOPNOTSUPP;
  const std::string link = absl::StrCat("/proc/self/fd/", file.get());
  Fd path(open(link.c_str(), O_PATH | O_CLOEXEC));
  if (!path) return errno;
  struct stat status {};
  if (fstat(path.get(), &status) != 0) return errno;
  found.path = SideThread::MakeEndingOn(thread, std::move(path));
  found.file_system = status.st_dev;
  found.inode = status.st_ino;
  return 0;
}

int OpenMappedFile(const Lender& lender, const uroce_lend& request, Fd& file) {
  SharedMapping mapping;
  if (lender.pid == 0) return EPERM;
  if (!FindMapping(lender, request, mapping)) return EACCES;
  const std::string link =
      absl::StrCat("/proc/", lender.pid, "/map_files/", absl::Hex(request.vma_start), "-",
                   absl::Hex(request.vma_end));
  const Fd found(open(link.c_str(), O_PATH | O_CLOEXEC));  // Located, but not opened yet.
  if (!found) return errno;
  struct stat status {};
  if (fstat(found.get(), &status) != 0) return errno;
  // The mapping may have changed between the two reads; opening a device may have effects.
  const bool is_same = status.st_dev == mapping.device && status.st_ino == mapping.inode;
  if (!is_same || !S_ISREG(status.st_mode)) return EACCES;
  const std::string path = absl::StrCat("/proc/self/fd/", found.get());
  file.Reset(open(path.c_str(), (request.writable != 0 ? O_RDWR : O_RDONLY) | O_CLOEXEC));
  return file ? 0 : errno;
}

namespace {

constexpr size_t kMaxFds = 4;

std::vector<Fd> TakeFds(msghdr& message) {
  std::vector<Fd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

/// Receives one message, with at most one fd. Returns 0, EINVAL, or EPIPE (the program hung up).
int ReceiveLend(int socket, uroce_lend& request, Fd& file) {
  iovec part{&request, sizeof(request)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) return EPIPE;
  std::vector<Fd> fds = TakeFds(message);  // Also for an empty message: we own them.
  if (got == 0) return EPIPE;
  const bool is_cut = (message.msg_flags & MSG_TRUNC) != 0;
  if (got != sizeof(request) || is_cut || fds.size() > 1) return EINVAL;
  if (fds.size() == 1) file = std::move(fds[0]);
  return 0;
}

/// The text of a small file of /proc; empty if it cannot be read.
std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Whether a process is in the PID namespace of this one, by the one PID that it has ("NSpid:").
bool IsInPidNamespace(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("NSpid:")) return line == absl::StrCat("NSpid:\t", pid);
  }
  return false;
}

/// Whether the lender may send signals to the daemon: it runs as the daemon's own user or as root,
/// in the daemon's PID and user namespaces. These files need no right to look into the process.
bool CouldEndDaemon(const Lender& lender) {
  if (lender.pid == 0 || !IsPrivilegedUser(lender.user.uid)) return false;
  const std::string own = TextOf("/proc/self/uid_map");
  return !own.empty() && IsInPidNamespace(lender.pid) &&
         own == TextOf(absl::StrCat("/proc/", lender.pid, "/uid_map"));
}

}  // namespace

/// The findings of the side thread, where it is also destroyed.
struct MemorySocket::Inspection {
  std::shared_ptr<UntrustedSocket> socket;
  std::shared_ptr<SideThread> thread;
  Lender lender;
  datapath::MemoryRest& rest;
  FilesToMap files;
  uroce_lend request{};
  Fd file;  ///< LEND_MEMORY
  LentFile lent;
  XrcFile xrc_file;
  bool could_end_daemon = false;
  int error = 0;

  void Run() {
    could_end_daemon = CouldEndDaemon(lender);
    error = ReceiveLend(socket->fd(), request, file);
    if (error == 0) error = Inspect();
    if (error != 0 || request.what != UROCE_LEND_MEMORY) file.Reset();  // Before the answer.
  }

 private:
  int Inspect() {
    if (request.what == UROCE_LEND_MEMORY) return file && IsMemoryFile(file.get()) ? 0 : EINVAL;
    if (request.what == UROCE_LEND_XRC_FILE) {
      return file ? FindXrcFile(file, thread, xrc_file) : EBADF;
    }
    if (request.what != UROCE_LEND_FILE) return EINVAL;
    // The daemon's other threads wait as long as the kernel takes to map a file.
    rest.EndIfOver(Nic::Now());
    if (rest.is_on()) return EBUSY;
    if (!ActForLender(lender)) return EPERM;
    const int opened = file ? 0 : OpenMappedFile(lender, request, file);
    return opened == 0 ? MapLentFile(request, file, files, lent) : opened;
  }
};

absl::StatusOr<std::unique_ptr<MemorySocket>> MemorySocket::Make(
    EventLoop& loop, BackgroundTasks& background_tasks, Program& program, const Lender& lender,
    Admission::Place place, std::shared_ptr<SideThread> thread, Fd& program_end) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError("socketpair", errno);
  }
  program_end.Reset(ends[1]);
  return std::unique_ptr<MemorySocket>(new MemorySocket(
      loop, background_tasks, program, lender, std::move(place), std::move(thread), Fd(ends[0])));
}

MemorySocket::MemorySocket(EventLoop& loop, BackgroundTasks& background_tasks, Program& program,
                           const Lender& lender, Admission::Place place,
                           std::shared_ptr<SideThread> thread, Fd socket)
    : loop_(loop),
      tasks_(background_tasks),
      program_(program),
      lender_(lender),
      place_(std::move(place)),
      thread_(std::move(thread)),
      socket_(std::make_shared<UntrustedSocket>(std::move(socket), thread_)) {
  Watch();
}

MemorySocket::~MemorySocket() {
  loop_.Forget(watch_);
  tasks_.Cancel(task_);
}

void MemorySocket::Watch() {
  watch_ = loop_.Watch(socket_->fd(), EPOLLIN, [this] { OnMessage(); });
}

// Stops watching until this message is handled, or for good when the program has hung up.
void MemorySocket::OnMessage() {
  loop_.Forget(watch_);
  const bool maps_all =
      IsPrivilegedUser(lender_.user.uid) || program_.core().nic().config().map_other_users_files;
  auto inspection = SideThread::MakeEndingOn(
      thread_, Inspection{.socket = socket_,
                          .thread = thread_,
                          .lender = lender_,
                          .rest = *program_.core().user().memory_rest,
                          .files = maps_all ? FilesToMap::kAll : FilesToMap::kKeepingPages});
  task_ = tasks_.Start([inspection] { inspection->Run(); },
                       [this, inspection] { OnInspected(*inspection); }, thread_);
}

void MemorySocket::OnInspected(Inspection& inspection) {
  if (inspection.error == EPIPE) return;
  uroce_lend_reply reply{};
  reply.error = inspection.error;
  if (reply.error == 0) Take(inspection, reply);
  if (send(socket_->fd(), &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
  Watch();
}

void MemorySocket::Take(Inspection& inspection, uroce_lend_reply& reply) {
  if (inspection.request.what == UROCE_LEND_MEMORY) {
    datapath::Session& session = program_.core().session();
    const bool first = session.copy_helper() == nullptr;
    if (!first) return;
    session.StartCopyHelper({.fd = inspection.file.Release(),
                             .user = lender_.user,
                             .by_workers = inspection.could_end_daemon,
                             .place = place_,
                             .on_end = [id = session.id()] { MappingGuard::Get().NoteLost(id); }});
    return;
  }
  if (inspection.request.what == UROCE_LEND_XRC_FILE) {
    const absl::StatusOr<uint32_t> file = program_.xrc().AddFile(std::move(inspection.xrc_file));
    reply.error = ErrnoOf(file.status());
    if (file.ok()) reply.segment = *file;
    return;
  }
  LentFile& lent = inspection.lent;
  reply.offset = lent.offset;
  reply.length = lent.mapping.length();
  const absl::StatusOr<uint32_t> segment =
      program_.segments().AddShared(std::move(lent.mapping), lent.writable, lent.populated);
  reply.error = ErrnoOf(segment.status());
  if (segment.ok()) reply.segment = *segment;
}

}  // namespace uroce::nic
