// SPDX-License-Identifier: Apache-2.0
// What workers tell the control thread: queue pairs that failed, with their packet history, and
// completion queues in error.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <mutex>
#include <utility>
#include <vector>

#include "pipeline/datapath/capture/packet_history.h"
#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {

// Passes queue pairs that failed, with their packet history, from the workers to the control
// thread.

/// A worker adds each failed queue pair once; the control thread takes when `fd` is readable.
class FailureInbox final : public datapath::FailureSink {
 public:
  void Take(datapath::FailedQueuePair failed) override {
    {
      const std::lock_guard lock(mutex_);
      failed_.push_back(std::move(failed));
    }
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof(one));
  }
  std::vector<datapath::FailedQueuePair> TakeAll() {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(event_.get(), &count, sizeof(count));
    const std::lock_guard lock(mutex_);
    return std::exchange(failed_, {});
  }
  int fd() const { return event_.get(); }

 private:
  Fd event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex_;
  std::vector<datapath::FailedQueuePair> failed_;
};

// Passes completion queues in error from the worker that found the error to the control thread,
// which tells the other workers.

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
