// SPDX-License-Identifier: Apache-2.0
// The queues of one extended connection (XRC) domain, as its worker sees them.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace uroce::datapath {

class QueuePair;
class SharedReceiveQueue;

/// The shared receive queues of the domain by their numbers, and its target queue pairs. All of
/// them live on the worker that owns the domain; nic changes it inside Worker::Run. The queues may
/// belong to several programs.
class XrcQueues {
 public:
  /// The queue of this number, or null.
  SharedReceiveQueue* Find(uint32_t srqn) const {
    const auto found = queues_.find(srqn);
    return found == queues_.end() ? nullptr : found->second;
  }
  void Insert(uint32_t srqn, SharedReceiveQueue* queue) { queues_[srqn] = queue; }
  void Erase(uint32_t srqn) { queues_.erase(srqn); }
  std::vector<QueuePair*>& targets() { return targets_; }

 private:
  std::unordered_map<uint32_t, SharedReceiveQueue*> queues_;
  std::vector<QueuePair*> targets_;
};

}  // namespace uroce::datapath
