// SPDX-License-Identifier: Apache-2.0
// Packets behind a queue pair that waits for a copy, and queue pairs that must not send because
// their peer has too many of these.
#pragma once

#include <rte_mbuf.h>

#include <cstddef>
#include <vector>

#include "pipeline/datapath/frames/cross_worker_queues.h"
#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/worker/frame_recorder.h"

namespace uroce::datapath {

/// Keeps packets that wait behind a queue pair's copy job in WaitingWork, within the limits of
/// WaitingFrames. Closes the gate of a queue pair behind which many wait, so that peers in the
/// daemon wait, too. One thread.
class WaitingPackets {
 public:
  /// `gates` is null when the daemon has one worker.
  WaitingPackets(const FrameLimits& limits, ReceiveGates* gates, FrameRecorder& recorder)
      : frames_(limits), gates_(gates), recorder_(recorder) {}

  const WaitingFrames& frames() const { return frames_; }
  /// Whether another frame may wait for the helper of `qp`. True where there is no helper.
  bool MayWait(const QueuePair& qp) const {
    return frames_.HasRoom(qp.program().frames) ||
           qp.receive_source().memory_session()->copy_helper() == nullptr;
  }
  /// Keeps a packet. False: no room; it is dropped and counted, and the caller keeps the frame.
  bool Keep(QueuePair& qp, rte_mbuf* frame);
  /// Drops and counts a packet that would have to wait.
  void Drop(QueuePair& qp, const rte_mbuf* frame);
  /// Returns the oldest frame that waits, which the caller then owns; null: none. The caller calls
  /// TendGate after the last Take.
  rte_mbuf* Take(QueuePair& qp);
  /// Closes the gate of `qp` when many packets wait, and opens it when few do.
  void TendGate(QueuePair& qp);
  /// Drops all packets that wait behind `qp`.
  void Abandon(QueuePair& qp);

 private:
  WaitingFrames frames_;
  ReceiveGates* const gates_;
  FrameRecorder& recorder_;
};

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
    if (qp.lists().Enter(WorkerList::kHeld)) held_.push_back(&qp);
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
      qp.lists().Leave(WorkerList::kHeld);
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
