// SPDX-License-Identifier: Apache-2.0
// Executes the effects that the transport asks for on memory: at once where the memory is mapped,
// by the session's copy helper where it is not.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "pipeline/datapath/copy/payload.h"
#include "pipeline/datapath/frames/kept_frames.h"
#include "pipeline/datapath/memory/key_table.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/copy_engine.h"
#include "pipeline/datapath/worker/key_changes.h"
#include "pipeline/datapath/worker/turn_time.h"

namespace uroce::datapath {

/// One thread.
class Effects {
 public:
  Effects(const KeyTable& keys, CopyEngine& copies, KeyChanges& key_changes,
          KeptFramePool& kept_frames, const TurnTime& time)
      : keys_(keys),
        copies_(copies),
        key_changes_(key_changes),
        kept_frames_(kept_frames),
        time_(time) {}

  /// Begins the effect of `packet`, which is in `frame`. True: the effect has ended, or `qp` waits
  /// and needs no frame. False: the frame is kept, or `qp` waits and the frame is the copy job's.
  bool Start(QueuePair& qp, const transport::Effect& effect, const wire::Packet& packet,
             rte_mbuf* frame);
  /// Called when the bytes of `effect` were moved, or could not be. `original`: the value that an
  /// atomic found. `qp` may wait afterwards, for the end of a key.
  void Finish(QueuePair& qp, const transport::Effect& effect, MoveResult result, uint64_t original);

 private:
  /// Whether the peer has the right to the whole message that `effect` checks before it begins.
  bool IsGranted(const QueuePair& qp, const transport::Effect& effect) const;
  bool StartAtomic(QueuePair& qp, const transport::Effect& effect);
  /// Keeps a packet that came behind a missing one. False: there is no room.
  bool Keep(QueuePair& qp, wire::Psn psn, rte_mbuf* frame);

  const KeyTable& keys_;
  CopyEngine& copies_;
  KeyChanges& key_changes_;
  KeptFramePool& kept_frames_;
  const TurnTime& time_;
};

}  // namespace uroce::datapath
