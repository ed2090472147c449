// SPDX-License-Identifier: Apache-2.0
#include "nic/resources/reaper.h"

#include <pthread.h>

#include <utility>

namespace uroce::nic {

Reaper::Reaper() : thread_([this] { Run(); }) {}

Reaper::~Reaper() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Reaper::Take(std::shared_ptr<void> last) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(last));
  }
  changed_.notify_one();
}

void Reaper::Run() {
  pthread_setname_np(pthread_self(), "uroce-reaper");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopped_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::shared_ptr<void> last = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    last.reset();
    lock.lock();
  }
}

}  // namespace uroce::nic
