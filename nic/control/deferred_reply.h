// SPDX-License-Identifier: Apache-2.0
// The reply to a command that has to wait: for the network, a worker, or a side thread.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "nic/base/event_loop.h"
#include "nic/base/message.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

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
