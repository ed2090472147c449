// SPDX-License-Identifier: Apache-2.0
#include "nic/control/memory_socket.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nic/resources/shared_memory.h"

namespace uroce::nic {
namespace {

constexpr uint32_t kMaxMessages = 8;  // A program needs one.
constexpr size_t kMaxFds = 4;

// "/proc/PID/mem", or "/PID/mem" where proc is mounted out of the daemon's sight.
bool IsMemoryPath(absl::string_view path) {
  absl::ConsumePrefix(&path, "/proc");
  return absl::ConsumePrefix(&path, "/") && absl::ConsumeSuffix(&path, "/mem") && !path.empty() &&
         std::all_of(path.begin(), path.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// A path may be forged by a mount of the program's own making, the file system type may not.
bool IsMemoryFile(int fd) {
  char path[64] = {};
  const std::string link = absl::StrCat("/proc/self/fd/", fd);
  const ssize_t length = readlink(link.c_str(), path, sizeof(path) - 1);
  if (length <= 0 || !IsMemoryPath({path, static_cast<size_t>(length)})) return false;
  if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR) return false;
  struct statfs file_system {};
  return fstatfs(fd, &file_system) == 0 && file_system.f_type == PROC_SUPER_MAGIC;
}

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

// Receives one message. The fd, if it is what it should be; its errno, if not.
int ReceiveMemoryFile(int socket, Fd& file) {
  uint32_t word = 0;
  iovec part{&word, sizeof(word)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got <= 0) return EPIPE;
  std::vector<Fd> fds = TakeFds(message);
  if (got != sizeof(word) || word != UROCE_MEM_FD || fds.size() != 1) return EINVAL;
  if (!IsMemoryFile(fds[0].get())) return EINVAL;
  file = std::move(fds[0]);
  return 0;
}

}  // namespace

/// What the thread finds out.
struct MemorySocket::Inspection {
  Fd socket;
  Fd file;
  int error = 0;
};

absl::StatusOr<std::unique_ptr<MemorySocket>> MemorySocket::Make(EventLoop& loop, Errands& errands,
                                                                 datapath::Session& session,
                                                                 Fd& program_end) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError("socketpair", errno);
  }
  program_end.Reset(ends[1]);
  return std::unique_ptr<MemorySocket>(new MemorySocket(loop, errands, session, Fd(ends[0])));
}

MemorySocket::MemorySocket(EventLoop& loop, Errands& errands, datapath::Session& session, Fd socket)
    : loop_(loop), errands_(errands), session_(session), socket_(std::move(socket)) {
  Watch();
}

MemorySocket::~MemorySocket() {
  loop_.Forget(watch_);
  errands_.Cancel(errand_);
}

void MemorySocket::Watch() {
  watch_ = loop_.Watch(socket_.get(), EPOLLIN, [this] { OnMessage(); });
}

// Not watched until this message is done with; for good when the program hung up.
void MemorySocket::OnMessage() {
  loop_.Forget(watch_);
  if (++messages_ > kMaxMessages) return;
  auto inspection = std::make_shared<Inspection>();
  inspection->socket.Reset(fcntl(socket_.get(), F_DUPFD_CLOEXEC, 0));
  errand_ = errands_.Start(
      [inspection] {
        inspection->error = ReceiveMemoryFile(inspection->socket.get(), inspection->file);
      },
      [this, inspection] { OnInspected(*inspection); });
}

void MemorySocket::OnInspected(Inspection& inspection) {
  if (inspection.error == EPIPE) return;
  const auto error = static_cast<uint32_t>(inspection.error);
  const bool first = session_.copy_helper() == nullptr;
  if (error == 0 && first) session_.StartCopyHelper(inspection.file.Release());
  if (send(socket_.get(), &error, sizeof(error), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
  Watch();
}

}  // namespace uroce::nic
