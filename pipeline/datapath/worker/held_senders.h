// SPDX-License-Identifier: Apache-2.0
// Queue pairs that must not send for now, because a peer or a copy helper is behind.
#pragma once

#include <cstddef>
#include <vector>

#include "pipeline/datapath/frames/receive_gates.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/waiting_packets.h"

namespace uroce::datapath {

/// Holds queue pairs whose peer in the daemon has closed its gate, and those whose program has so
/// many frames waiting that it may not have another copy job. One thread.
class HeldSenders {
 public:
  /// `gates` is null when the daemon has one worker.
  HeldSenders(const ReceiveGates* gates, const WaitingPackets& waiting)
      : gates_(gates), waiting_(waiting) {}

  /// Whether `qp` must not send now.
  bool MustHold(const QueuePair& qp) const { return IsPeerFull(qp) || !waiting_.MayWait(qp); }
  /// Adds `qp`, which Release finds when it may send again.
  void Add(QueuePair& qp) {
    if (qp.links().lists.Enter(WorkerList::kHeld)) held_.push_back(&qp);
  }
  /// Calls `on_release(QueuePair&)` for those that may send again. Checks up to kMaxLooks a turn.
  template <typename OnRelease>
  bool Release(OnRelease&& on_release) {
    if (held_.empty()) return false;
    bool any = false;
    for (size_t looks = held_.size() < kMaxLooks ? held_.size() : kMaxLooks; looks != 0; --looks) {
      if (next_ >= held_.size()) next_ = 0;
      QueuePair& qp = *held_[next_];
      if (MustHold(qp)) {
        ++next_;
        continue;
      }
      held_[next_] = held_.back();
      held_.pop_back();
      qp.links().lists.Leave(WorkerList::kHeld);
      any = true;
      on_release(qp);
    }
    return any;
  }
  bool empty() const { return held_.empty(); }

  // ---- between turns ----
  void Reserve(size_t queue_pairs) {
    if (held_.capacity() < queue_pairs) held_.reserve(queue_pairs * 2);
  }
  void Remove(QueuePair& qp) { std::erase(held_, &qp); }

 private:
  static constexpr size_t kMaxLooks = 64;  // In one turn.

  bool IsPeerFull(const QueuePair& qp) const {
    return qp.is_peer_in_daemon() && gates_ != nullptr && gates_->IsClosed(qp.path().remote_qpn);
  }

  const ReceiveGates* const gates_;
  const WaitingPackets& waiting_;
  std::vector<QueuePair*> held_;
  size_t next_ = 0;  // Index that is checked first in the next turn.
};

}  // namespace uroce::datapath
