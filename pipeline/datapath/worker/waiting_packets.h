// SPDX-License-Identifier: Apache-2.0
// Keeps packets that wait behind a queue pair's copy job.
#pragma once

#include <rte_mbuf.h>

#include "pipeline/datapath/frames/receive_gates.h"
#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/session_list.h"
#include "pipeline/datapath/worker/frame_recorder.h"

namespace uroce::datapath {

/// Keeps these packets in WaitingWork, within the limits of WaitingFrames. Closes the gate of a
/// queue pair behind which many wait, so that peers in the daemon wait, too. One thread.
class WaitingPackets {
 public:
  /// `gates` is null when the daemon has one worker.
  WaitingPackets(const FrameLimits& limits, ReceiveGates* gates, FrameRecorder& recorder)
      : frames_(limits), gates_(gates), recorder_(recorder) {}

  const WaitingFrames& frames() const { return frames_; }
  /// Whether another frame may wait for the helper of `qp`. True where there is no helper.
  bool MayWait(const QueuePair& qp) const {
    return frames_.HasRoom(qp.links().session->frames) ||
           qp.memory_session()->copy_helper() == nullptr;
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

}  // namespace uroce::datapath
