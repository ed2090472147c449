// SPDX-License-Identifier: Apache-2.0
// The reply to a command of the control socket: its bytes and file descriptors, sent at once or
// after a wait for the network, a worker or a side thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "nic/base/event_loop.h"
#include "pipeline/base/types.h"
#include "pipeline/os/fd.h"

namespace uroce {

/// The answer to a command: its structure, and the fds that go with it. A datagram of the control
/// socket.
class Reply {
 public:
  /// Appends the bytes of `value`.
  template <typename T>
  void Add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    body_.insert(body_.end(), bytes, bytes + sizeof(T));
  }
  void AddBytes(std::span<const uint8_t> bytes) {
    body_.insert(body_.end(), bytes.begin(), bytes.end());
  }
  /// Adds an fd that the daemon keeps.
  void Lend(int fd) { fds_.push_back(fd); }
  /// Adds an fd that is closed here once sent.
  void Give(Fd fd) {
    fds_.push_back(fd.get());
    owned_.push_back(std::move(fd));
  }

  /// Makes duplicates of the lent fds, since the daemon may close its own before a later try to
  /// send. False: the system has no fd left.
  [[nodiscard]] bool KeepFds();

  std::span<const uint8_t> body() const { return body_; }
  std::span<const int> fds() const { return fds_; }

 private:
  std::vector<uint8_t> body_;
  std::vector<int> fds_;
  std::vector<Fd> owned_;
};

/// The errno that verbs return for a status.
int ErrnoOf(const absl::Status& status);

/// Sends a reply, or an error with its text. Returns 0 or an errno. After one for which
/// MaySendLater is true, the socket may take the reply later.
[[nodiscard]] int SendReply(int socket, const absl::Status& status, const Reply& reply);

/// Whether the failure is no fault of the program: the socket or the kernel has no room, or too
/// many fds are under way between the programs of its user (ETOOMANYREFS).
bool MaySendLater(int error);

}  // namespace uroce

namespace uroce::nic {

/// The reply to a command that has to wait: for the network, a worker, or a side thread.
///
/// At most one reply is pending. The code that defers it completes it once, in a later callback of
/// the loop, or defers it again. The destructor cancels a pending wait. Control thread.
class DeferredReply {
 public:
  /// Fills the reply in; the returned status is sent with it.
  using Writer = std::function<absl::Status(Reply&)>;
  using Sender = std::function<void(const absl::Status&, Reply&&)>;

  DeferredReply(EventLoop& loop, Sender send);
  ~DeferredReply();
  DeferredReply(const DeferredReply&) = delete;
  DeferredReply& operator=(const DeferredReply&) = delete;

  bool is_pending() const { return cancel_ != nullptr; }

  /// Marks the reply as pending on an operation that `cancel` ends. The destructor may call
  /// `cancel` when the code that deferred the reply is already gone.
  void Defer(std::function<void()> cancel);
  /// Intervals between two checks: `first`, then doubled each time, up to `last`.
  struct Pace {
    Nanos first;
    Nanos last;
  };
  /// Calls `is_ready` at this pace, first after pace.first, until it is true; then completes.
  void Poll(Pace pace, std::function<bool()> is_ready, Writer write);
  /// Calls `step` at this pace until it returns true: then it has completed or released the reply.
  void Repeat(Pace pace, std::function<bool()> step);

  /// Sends what `write` returns, unless `write` defers the reply again.
  void Complete(const Writer& write);
  /// Cancels the wait, if a reply is pending, which is never sent then.
  void Cancel();
  /// Ends the pending state: the reply has been sent, or never will be.
  void Release() { cancel_ = nullptr; }

 private:
  struct Repetition;
  void Schedule(const std::shared_ptr<Repetition>& repetition);

  EventLoop& loop_;
  const Sender send_;
  std::function<void()> cancel_;
};

}  // namespace uroce::nic
