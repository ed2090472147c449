// SPDX-License-Identifier: Apache-2.0
// Packets that wait behind a queue pair's copy job.
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
  /// `gates` is null for a worker that is alone.
  WaitingPackets(const FrameLimits& limits, ReceiveGates* gates, FrameRecorder& recorder)
      : frames_(limits), gates_(gates), recorder_(recorder) {}

  const WaitingFrames& frames() const { return frames_; }
  /// Whether another frame may wait for the helper of `qp`, where it has one.
  bool MayWait(const QueuePair& qp) const {
    return frames_.HasRoom(qp.links().session->frames) ||
           qp.memory_session()->copy_helper() == nullptr;
  }
  /// False: there is no room. The packet is dropped and counted, and the frame stays the caller's.
  bool Keep(QueuePair& qp, rte_mbuf* frame);
  /// Drops and counts a packet that would have to wait.
  void Drop(QueuePair& qp, const rte_mbuf* frame);
  /// The oldest that waits, which is the caller's from then on; null: none. Once no more are taken,
  /// TendGate.
  rte_mbuf* Take(QueuePair& qp);
  /// Closes the gate of `qp` when many packets wait, and opens it when few do.
  void TendGate(QueuePair& qp);
  /// Drops all that wait.
  void Abandon(QueuePair& qp);

 private:
  WaitingFrames frames_;
  ReceiveGates* const gates_;
  FrameRecorder& recorder_;
};

}  // namespace uroce::datapath
