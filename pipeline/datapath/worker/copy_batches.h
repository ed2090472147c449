// SPDX-License-Identifier: Apache-2.0
// Adds payload of a message's next packets to the copy job of one packet, since most of a job's
// cost is time between threads. A wrong prediction is dropped, and its packet is copied again.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "pipeline/datapath/copy/running_icrc.h"
#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/memory/key_table.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/waiting_work.h"
#include "pipeline/datapath/worker/frame_stash.h"

namespace uroce::datapath {

/// The job of one packet also holds payload of later packets: it places payload of received packets
/// that wait, and prefetches payload of packets that are not yet polled. One thread.
class CopyBatches {
 public:
  CopyBatches(const KeyTable& keys, const WaitingFrames& waiting_frames, FrameStash& stash)
      : keys_(keys), waiting_frames_(waiting_frames), stash_(stash) {}

  /// Adds the payload of waiting packets to the copy job of the packet before them.
  void BatchPlacements(QueuePair& qp);
  /// Adds the payload that the message sends next to the copy job of a packet.
  void PrefetchPayload(QueuePair& qp);
  /// Called when the job of `qp` is done: keeps what it placed and prefetched for later packets.
  static void Keep(QueuePair& qp);
  /// True: the payload of packet `psn` was placed before, and `effect`, which places it, is done.
  static bool TakePlaced(QueuePair& qp, const transport::Effect& effect, wire::Psn psn);
  /// Copies the payload of `packet`, if it was prefetched, and `icrc` takes it.
  static bool TakePrefetched(QueuePair& qp, const transport::TxPacket& packet, uint8_t* payload,
                             RunningIcrc& icrc);
  static void Forget(QueuePair& qp);

 private:
  static void DropPrefetched(QueuePair& qp, PrefetchedPayload& prefetched);

  const KeyTable& keys_;
  const WaitingFrames& waiting_frames_;
  FrameStash& stash_;
};

}  // namespace uroce::datapath
