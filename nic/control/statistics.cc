// SPDX-License-Identifier: Apache-2.0
#include "nic/control/statistics.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "nic/control/thread_time.h"
#include "nic/dumps/stat_walk.h"
#include "nic/objects/nic.h"

namespace uroce::nic {

Statistics::Statistics(const DumpContext& context)
    : context_(context), self_(0, Peer{getpid(), geteuid(), getegid()}) {}

Statistics::~Statistics() { context_.loop.Cancel(next_); }

void Statistics::Ask(Answer answer) {
  if (walk_ == nullptr && Nic::Now() < fresh_until_) return answer(newest_);
  waiting_.push_back(std::move(answer));
  if (walk_ != nullptr) return;
  walk_ = std::make_unique<StatWalk>(context_, self_);
  spent_ = Nanos(0);
  next_ = context_.loop.After(Nanos(0), [this] { Continue(); });
}

void Statistics::Forget() {
  fresh_until_ = Nanos(0);
  if (walk_ != nullptr) walk_ = std::make_unique<StatWalk>(context_, self_);
}

// A piece is some ten microseconds of each worker; other clients are served in between.
void Statistics::Continue() {
  next_ = 0;
  const Nanos begin = ThreadTime();
  const bool goes_on = walk_->Continue();
  if (!goes_on) newest_ = std::make_shared<const Snapshot>(walk_->Take());
  spent_ = spent_ + (ThreadTime() - begin);
  if (!goes_on) return Finish();
  next_ = context_.loop.After(Nanos(0), [this] { Continue(); });
}

void Statistics::Finish() {
  walk_.reset();
  fresh_until_ = Nic::Now() + std::max(kLifespan, spent_ * kRestPerWork);
  for (const Answer& answer : std::exchange(waiting_, {})) answer(newest_);
}

}  // namespace uroce::nic
