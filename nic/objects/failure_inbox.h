// SPDX-License-Identifier: Apache-2.0
// Passes queue pairs that failed, with their packet history, from the workers to the control
// thread.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <mutex>
#include <utility>
#include <vector>

#include "nic/base/fd.h"
#include "pipeline/datapath/capture/packet_history.h"

namespace uroce::nic {

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

}  // namespace uroce::nic
