// SPDX-License-Identifier: Apache-2.0
// A CPU that a thread of a test has to share.
#pragma once

#include <sched.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

namespace uroce {

/// Runs `work` in a thread that shares its CPU with one that computes all the time.
class BesideABusyThread {
 public:
  explicit BesideABusyThread(std::function<void()> work)
      : thread_([work = std::move(work)] {
          cpu_set_t here;
          CPU_ZERO(&here);
          CPU_SET(sched_getcpu(), &here);
          sched_setaffinity(0, sizeof here, &here);
          std::atomic<bool> done{false};
          std::thread busy([&] {
            while (!done) continue;  // On the same CPU: the affinity is inherited.
          });
          work();
          done = true;
          busy.join();
        }) {}
  ~BesideABusyThread() { thread_.join(); }
  BesideABusyThread(const BesideABusyThread&) = delete;
  BesideABusyThread& operator=(const BesideABusyThread&) = delete;

 private:
  std::thread thread_;
};

}  // namespace uroce
