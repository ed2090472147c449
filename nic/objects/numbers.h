// SPDX-License-Identifier: Apache-2.0
// Numbers of queue pairs, keys and XRC receive queues, unique in the daemon.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "nic/base/number_pool.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// Allocates numbers of queue pairs, and counts the queue pairs of each worker. A number determines
/// the worker that owns its queue pair (pipeline/base/steering.h). Control thread.
class QueuePairNumbers {
 public:
  explicit QueuePairNumbers(uint32_t workers, NumberPool::Random random = SecureRandom)
      : pool_(24, 0, random), counts_(workers) {}

  /// The worker for a new queue pair: the one to which an object that it uses is `bound`, or the
  /// one with the fewest queue pairs.
  uint32_t WorkerFor(std::optional<uint32_t> bound) const;
  /// Takes a number for a queue pair of `worker`, which counts it from now on. 0: there is none.
  uint32_t Take(uint32_t worker, Nanos now);
  /// The queue pair has left its worker.
  void Release(Qpn qpn, Nanos now);

  uint32_t count_on(uint32_t worker) const { return counts_[worker]; }
  size_t held() const { return pool_.held(); }

 private:
  uint32_t workers() const { return static_cast<uint32_t>(counts_.size()); }

  NumberPool pool_;
  std::vector<uint32_t> counts_;  ///< By worker.
};

/// Control thread.
struct Numbers {
  explicit Numbers(uint32_t workers) : queue_pairs(workers) {}

  /// The count of one kind of numbers in use, with its name in dumps.
  struct Held {
    const char* name;
    size_t count;
  };
  std::array<Held, 3> held() const {
    return {{{"qpns", queue_pairs.held()}, {"keys", keys.held()}, {"srqns", srqs.held()}}};
  }

  QueuePairNumbers queue_pairs;
  NumberPool keys{32, 8};  ///< Of regions and windows.
  NumberPool srqs{24, 0};  ///< XRC requests name shared receive queues by these.
};

}  // namespace uroce::nic
