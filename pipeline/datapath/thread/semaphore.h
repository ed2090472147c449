// SPDX-License-Identifier: Apache-2.0
// A binary semaphore: one thread waits until another has done something for it.
#pragma once

#include <rte_pause.h>
#include <semaphore.h>

namespace uroce::datapath {

/// Acquire waits for Release: it polls for a short time and then sleeps. It does not yield, unlike
/// std::binary_semaphore: a yield costs time slices of others (idle_policy.h).
class Semaphore {
 public:
  Semaphore() { sem_init(&semaphore_, 0, 0); }
  ~Semaphore() { sem_destroy(&semaphore_); }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  void Release() { sem_post(&semaphore_); }
  void Acquire() {
    for (int i = 0; i < kPolls; ++i) {
      if (sem_trywait(&semaphore_) == 0) return;
      rte_pause();
    }
    while (sem_wait(&semaphore_) != 0) continue;  // A signal came.
  }

 private:
  static constexpr int kPolls = 100;  // Some microseconds: as long as a worker's turn takes.

  sem_t semaphore_;
};

}  // namespace uroce::datapath
