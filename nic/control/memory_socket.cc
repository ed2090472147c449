// SPDX-License-Identifier: Apache-2.0
#include "nic/control/memory_socket.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "nic/base/mapping_guard.h"
#include "nic/base/message.h"
#include "nic/base/shared_memory.h"
#include "pipeline/datapath/copy/copy_helper.h"

namespace uroce::nic {
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

}  // namespace

/// The findings of the side thread, where it is also destroyed.
struct MemorySocket::Inspection {
  std::shared_ptr<StrangerSocket> socket;
  std::shared_ptr<SideThread> thread;
  Lender lender;
  uroce_lend request{};
  Fd file;  ///< LEND_MEMORY
  LentFile lent;
  XrcFile xrc_file;
  int error = 0;

  void Run() {
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
    const int opened = file ? 0 : OpenMappedFile(lender, request, file);
    return opened == 0 ? MapLentFile(request, file, lent) : opened;
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
      socket_(std::make_shared<StrangerSocket>(std::move(socket), thread_)) {
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
  auto inspection = SideThread::MakeEndingOn(
      thread_, Inspection{.socket = socket_, .thread = thread_, .lender = lender_});
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
      program_.segments().AddShared(std::move(lent.mapping), lent.writable);
  reply.error = ErrnoOf(segment.status());
  if (segment.ok()) reply.segment = *segment;
}

}  // namespace uroce::nic
