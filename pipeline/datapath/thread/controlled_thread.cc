// SPDX-License-Identifier: Apache-2.0
// A thread that runs work for a control thread between two of its turns, or stands still on
// request.
#include "pipeline/datapath/thread/controlled_thread.h"

#include <utility>

namespace uroce::datapath {

void ControlledThread::Start(std::function<void()> main) {
  if (running_.exchange(true)) return;
  stop_.store(false);
  thread_ = std::thread(std::move(main));
}

void ControlledThread::Stop() {
  const std::lock_guard lock(mutex_);
  if (!running_.load()) return;
  stop_.store(true);
  wake_();
  thread_.join();
  running_.store(false);
}

void ControlledThread::Run(absl::FunctionRef<void()> work) {
  const std::lock_guard lock(mutex_);
  if (!running_.load()) {
    work();
    return;
  }
  mailbox_.Post(work);
  wake_();
  mailbox_.WaitDone();
}

void ControlledThread::Hold() {
  mutex_.lock();
  if (!running_.load()) return;
  mailbox_.Post(stand_still_request_);
  wake_();
}

void ControlledThread::AwaitHold() {
  if (running_.load()) stand_still_.held.Acquire();
}

void ControlledThread::Release() {
  if (running_.load()) {
    stand_still_.released.Release();
    mailbox_.WaitDone();
  }
  mutex_.unlock();
}

}  // namespace uroce::datapath
