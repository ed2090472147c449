// SPDX-License-Identifier: Apache-2.0
// The reply to a command of the control socket: its bytes and file descriptors, sent at once or
// after a wait for the network, a worker or a side thread.
#include "nic/base/reply.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/string_view.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce {
namespace {

constexpr size_t kMaxFds = UROCE_MAX_WORKERS + 3;  // HELLO has the most fds.

uroce_reply MakeHeader(const absl::Status& status, size_t body_bytes) {
  uroce_reply header{};
  header.error = ErrnoOf(status);
  header.size = static_cast<uint32_t>(sizeof(header) + body_bytes);
  const absl::string_view text = status.message();
  std::copy_n(text.begin(), std::min(text.size(), sizeof(header.text) - 1), header.text);
  return header;
}

}  // namespace

int ErrnoOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kNotFound:
      return ENOENT;
    case absl::StatusCode::kResourceExhausted:
      return ENOMEM;
    case absl::StatusCode::kFailedPrecondition:
      return EBUSY;
    case absl::StatusCode::kPermissionDenied:
      return EPERM;
    case absl::StatusCode::kUnimplemented:
      return EOPNOTSUPP;
    case absl::StatusCode::kAborted:
      return EAGAIN;
    case absl::StatusCode::kDeadlineExceeded:
      return ETIMEDOUT;
    case absl::StatusCode::kUnavailable:
      return EHOSTUNREACH;
    case absl::StatusCode::kOutOfRange:
      return EFAULT;
    case absl::StatusCode::kInternal:
      return EIO;
    case absl::StatusCode::kCancelled:
      return ENODEV;
    default:
      return EINVAL;
  }
}

bool Reply::KeepFds() {
  for (int& fd : fds_) {
    const bool is_ours =
        std::ranges::any_of(owned_, [fd](const Fd& owned) { return owned.get() == fd; });
    if (is_ours) continue;
    Fd kept(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!kept) return false;
    fd = kept.get();
    owned_.push_back(std::move(kept));
  }
  return true;
}

bool MaySendLater(int error) {
  return error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == ETOOMANYREFS;
}

int SendReply(int socket, const absl::Status& status, const Reply& reply) {
  const std::span<const uint8_t> body = status.ok() ? reply.body() : std::span<const uint8_t>();
  uroce_reply header = MakeHeader(status, body.size());
  iovec parts[2] = {{&header, sizeof(header)}, {const_cast<uint8_t*>(body.data()), body.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)] = {};
  const std::span<const int> fds = reply.fds();
  if (status.ok() && !fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? errno : 0;
}

}  // namespace uroce

namespace uroce::nic {

struct DeferredReply::Repetition {
  std::function<bool()> step;
  Nanos wait;
  Nanos last;
};

DeferredReply::DeferredReply(EventLoop& loop, Sender send) : loop_(loop), send_(std::move(send)) {}

DeferredReply::~DeferredReply() { Cancel(); }

void DeferredReply::Cancel() {
  if (const auto cancel = std::exchange(cancel_, nullptr); cancel != nullptr) cancel();
}

void DeferredReply::Defer(std::function<void()> cancel) { cancel_ = std::move(cancel); }

void DeferredReply::Poll(Pace pace, std::function<bool()> is_ready, Writer write) {
  Repeat(pace, [this, is_ready = std::move(is_ready), write = std::move(write)] {
    if (!is_ready()) return false;
    Complete(write);
    return true;
  });
}

void DeferredReply::Repeat(Pace pace, std::function<bool()> step) {
  Schedule(std::make_shared<Repetition>(Repetition{std::move(step), pace.first, pace.last}));
}

void DeferredReply::Schedule(const std::shared_ptr<Repetition>& repetition) {
  const EventLoop::Id timer = loop_.After(repetition->wait, [this, repetition] {
    if (repetition->step()) return;
    repetition->wait = std::min(repetition->wait * 2, repetition->last);
    Schedule(repetition);
  });
  Defer([this, timer] { loop_.Cancel(timer); });
}

void DeferredReply::Complete(const Writer& write) {
  Release();
  Reply reply;
  const absl::Status status = write(reply);
  if (!is_pending()) send_(status, std::move(reply));
}

}  // namespace uroce::nic
