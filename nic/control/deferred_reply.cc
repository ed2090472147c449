// SPDX-License-Identifier: Apache-2.0
#include "nic/control/deferred_reply.h"

#include <algorithm>
#include <utility>

namespace uroce::nic {

struct DeferredReply::Repetition {
  std::function<bool()> step;
  Nanos wait;
  Nanos last;
};

DeferredReply::DeferredReply(EventLoop& loop, Sender send) : loop_(loop), send_(std::move(send)) {}

DeferredReply::~DeferredReply() {
  if (cancel_ != nullptr) cancel_();
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
