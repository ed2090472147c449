// SPDX-License-Identifier: Apache-2.0
// The reply to a command that has to wait: for the network, for a worker, for a side thread.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "nic/base/event_loop.h"
#include "nic/base/message.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// At most one reply is pending. Whoever defers it completes it once, in a later callback of the
/// loop, or defers it again. A wait that is under way is cancelled at the end. Control thread.
class DeferredReply {
 public:
  /// Fills the reply in; the status goes with it.
  using Writer = std::function<absl::Status(Reply&)>;
  using Sender = std::function<void(const absl::Status&, Reply&&)>;

  DeferredReply(EventLoop& loop, Sender send);
  ~DeferredReply();
  DeferredReply(const DeferredReply&) = delete;
  DeferredReply& operator=(const DeferredReply&) = delete;

  bool is_pending() const { return cancel_ != nullptr; }

  /// Something is under way that `cancel` ends. It may be called at the very end: by then whoever
  /// deferred the reply may be gone.
  void Defer(std::function<void()> cancel);
  /// Times between two looks: `first`, then twice as long each time, up to `last`.
  struct Pace {
    Nanos first;
    Nanos last;
  };
  /// Looks whether `is_ready`, the first time after pace.first; then completes.
  void Poll(Pace pace, std::function<bool()> is_ready, Writer write);
  /// Calls `step` in this pace until it returns true: it has completed or released the reply.
  void Repeat(Pace pace, std::function<bool()> step);

  /// Sends what `write` says, unless it defers the reply again.
  void Complete(const Writer& write);
  /// Nothing is pending any more: the reply has been sent, or never will be.
  void Release() { cancel_ = nullptr; }

 private:
  struct Repetition;
  void Schedule(const std::shared_ptr<Repetition>& repetition);

  EventLoop& loop_;
  const Sender send_;
  std::function<void()> cancel_;
};

}  // namespace uroce::nic
