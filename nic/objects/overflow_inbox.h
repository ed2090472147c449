// SPDX-License-Identifier: Apache-2.0
// Passes completion queues in error from the worker that found the error to the control thread,
// which tells the other workers.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <mutex>
#include <utility>
#include <vector>

#include "nic/base/fd.h"
#include "pipeline/datapath/queue/completion_queue.h"

namespace uroce::nic {

/// A worker adds each queue once; the control thread takes when `fd` is readable.
class OverflowInbox final : public datapath::OverflowSink {
 public:
  void OnOverflow(datapath::CompletionQueue& queue) override {
    {
      const std::lock_guard lock(mutex_);
      queues_.push_back(&queue);
    }
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof(one));
  }
  std::vector<datapath::CompletionQueue*> TakeAll() {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(event_.get(), &count, sizeof(count));
    const std::lock_guard lock(mutex_);
    return std::exchange(queues_, {});
  }
  /// Call it before `queue` is destroyed, when no worker uses it any more.
  void Forget(const datapath::CompletionQueue& queue) {
    const std::lock_guard lock(mutex_);
    std::erase(queues_, &queue);
  }
  int fd() const { return event_.get(); }

 private:
  Fd event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex_;
  std::vector<datapath::CompletionQueue*> queues_;
};

}  // namespace uroce::nic
