// SPDX-License-Identifier: Apache-2.0
// Unix sockets: checks of a path before a driver listens or connects there, sockets that untrusted
// processes write to, and streams that a slow reader does not delay.
#include "pipeline/os/unix_socket.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/os/shared_memory.h"

namespace uroce {
namespace {

absl::Status Bad(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

absl::Status CheckLength(const std::string& path) {
  constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (!path.empty() && path.size() <= kLongest) return absl::OkStatus();
  return Bad(path, absl::StrCat("the path of a socket has 1 to ", kLongest, " bytes"));
}

/// Returns 0, or the errno for which no connection can be made.
int ConnectError(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  const int error = connect(fd, generic, sizeof(address)) == 0 ? 0 : errno;
  close(fd);
  return error;
}

absl::Status CheckDirectory(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string directory = parent.empty() ? std::string(1, '.') : parent.string();
  struct stat status {};
  if (stat(directory.c_str(), &status) != 0) {
    return Bad(path, absl::StrCat("the directory ", directory, ": ", std::strerror(errno)));
  }
  if (!S_ISDIR(status.st_mode)) return Bad(path, absl::StrCat(directory, " is no directory"));
  if (access(directory.c_str(), W_OK) == 0) return absl::OkStatus();
  return Bad(path, absl::StrCat("the directory ", directory, ": ", std::strerror(errno)));
}

}  // namespace

absl::Status PrepareServerPath(const std::string& path) {
  if (absl::Status status = CheckLength(path); !status.ok()) return status;
  if (absl::Status status = CheckDirectory(path); !status.ok()) return status;
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return absl::OkStatus();
  if (!S_ISSOCK(status.st_mode)) return Bad(path, "exists and is no socket");
  // A full backlog also means that a process listens.
  if (ConnectError(path) != ECONNREFUSED) return Bad(path, "another process listens there already");
  if (unlink(path.c_str()) == 0) return absl::OkStatus();
  return Bad(path, absl::StrCat("left behind, cannot be removed: ", std::strerror(errno)));
}

absl::Status CheckServerListens(const std::string& path) {
  if (absl::Status status = CheckLength(path); !status.ok()) return status;
  const int error = ConnectError(path);
  if (error == 0) return absl::OkStatus();
  return Bad(path, absl::StrCat("no process listens there (", std::strerror(error),
                                "); start that side first"));
}

// Data that a program sent here would stay until the daemon closes the socket, with fds in it.
absl::StatusOr<Fd> MakeOneWaySocket(Fd& reader, int send_buffer_bytes) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError("socketpair", errno);
  }
  reader.Reset(ends[0]);
  Fd writer(ends[1]);
  if (shutdown(writer.get(), SHUT_RD) != 0) return SystemError("shutdown", errno);
  if (send_buffer_bytes != 0) {
    setsockopt(writer.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer_bytes, sizeof(send_buffer_bytes));
  }
  return writer;
}

// The kernel counts the memory of messages. A last byte is still counted while one is being freed.
bool HasUnread(int socket) {
  int bytes = 0;
  return ioctl(socket, SIOCOUTQ, &bytes) == 0 && bytes > 1;
}

namespace {

/// SO_PASSRIGHTS of Linux 6.16 and later.
constexpr int kPassRights = 83;

}  // namespace

UntrustedSocket::UntrustedSocket(Fd socket, std::shared_ptr<SideThread> thread)
    : socket_(std::move(socket)), thread_(std::move(thread)) {}

UntrustedSocket::~UntrustedSocket() {
  if (IsDrained()) return;
  thread_->End(std::make_shared<Fd>(std::move(socket_)));
}

// MSG_PEEK neither takes nor closes the fds of a message: the queue still has them.
UntrustedSocket::Received UntrustedSocket::Receive(std::span<uint8_t> buffer) {
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ssize_t got = 0;
  do {
    got = recvmsg(fd(), &message, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);
  } while (got < 0 && errno == ECONNRESET);  // Reported once, before the queued messages.
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {Outcome::kNothing};
  if (got >= 0 && (message.msg_flags & MSG_CTRUNC) != 0) return {Outcome::kFds};
  if (got <= 0) return {Outcome::kHangup};
  if (recv(fd(), nullptr, 0, MSG_DONTWAIT) < 0) return {Outcome::kHangup};
  return {Outcome::kMessage, static_cast<size_t>(got)};
}

// Nothing arrives after the shutdown, so this ends.
bool UntrustedSocket::IsDrained() {
  shutdown(fd(), SHUT_RD);
  Received received;
  do {
    received = Receive({});
  } while (received.outcome == Outcome::kMessage);
  return received.outcome == Outcome::kHangup;
}

void RefuseFds(int listener) {
  const int pass = 0;
  setsockopt(listener, SOL_SOCKET, kPassRights, &pass, sizeof(pass));
}

}  // namespace uroce
