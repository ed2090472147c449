// SPDX-License-Identifier: Apache-2.0
#include "nic/base/stranger_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace uroce {
namespace {

/// SO_PASSRIGHTS of Linux 6.16 and later.
constexpr int kPassRights = 83;

}  // namespace

StrangerSocket::StrangerSocket(Fd socket, std::shared_ptr<SideThread> thread)
    : socket_(std::move(socket)), thread_(std::move(thread)) {}

StrangerSocket::~StrangerSocket() {
  if (IsDrained()) return;
  thread_->End(std::make_shared<Fd>(std::move(socket_)));
}

// MSG_PEEK neither takes nor closes the fds of a message: the queue still has them.
StrangerSocket::Received StrangerSocket::Receive(std::span<uint8_t> buffer) {
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
bool StrangerSocket::IsDrained() {
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
