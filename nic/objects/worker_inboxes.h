// SPDX-License-Identifier: Apache-2.0
// What workers tell the control thread: queue pairs that failed, with their packet history, and
// completion queues in error.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <mutex>
#include <utility>
#include <vector>

#include "pipeline/datapath/capture/packet_records.h"
#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {

/// A list that workers add to; the control thread takes all of it when `fd` is readable.
template <typename Item>
class WorkerInbox {
 public:
  void Add(Item item) {
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
    }
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof(one));
  }
  std::vector<Item> TakeAll() {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(event_.get(), &count, sizeof(count));
    const std::lock_guard lock(mutex_);
    return std::exchange(items_, {});
  }
  /// Removes the items that equal `value`.
  template <typename Value>
  void Remove(const Value& value) {
    const std::lock_guard lock(mutex_);
    std::erase(items_, value);
  }
  int fd() const { return event_.get(); }

 private:
  Fd event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex_;
  std::vector<Item> items_;
};

/// Queue pairs that failed. A worker adds each of them once.
class FailureInbox final : public datapath::FailureSink {
 public:
  void Take(datapath::FailedQueuePair failed) override { inbox_.Add(std::move(failed)); }
  std::vector<datapath::FailedQueuePair> TakeAll() { return inbox_.TakeAll(); }
  int fd() const { return inbox_.fd(); }

 private:
  WorkerInbox<datapath::FailedQueuePair> inbox_;
};

/// Completion queues in error: the control thread tells the workers other than the one that found
/// the error, which adds each queue once.
class OverflowInbox final : public datapath::OverflowSink {
 public:
  void OnOverflow(datapath::CompletionQueue& queue) override { inbox_.Add(&queue); }
  std::vector<datapath::CompletionQueue*> TakeAll() { return inbox_.TakeAll(); }
  /// Call it before `queue` is destroyed, when no worker uses it any more.
  void Forget(const datapath::CompletionQueue& queue) { inbox_.Remove(&queue); }
  int fd() const { return inbox_.fd(); }

 private:
  WorkerInbox<datapath::CompletionQueue*> inbox_;
};

}  // namespace uroce::nic
