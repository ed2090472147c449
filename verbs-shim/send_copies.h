// SPDX-License-Identifier: Apache-2.0
// Payload that ibv_post_send copies: that of messages which lie in memory that the daemon does not
// map. A copy within one process costs less than one from another process, and the daemon sends the
// copy as it sends mapped memory.
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

#include "verbs-shim/copy_ring.h"

namespace uroce::shim {

struct QueuePair;

/// A queue pair has a ring of copies from its first message on whose payload the daemon would have
/// to copy. A copy stays until its request is known to be complete, since packets may be sent
/// again. A message that has no room is sent from where it lies.
///
/// No program sees a difference, since it may not change the payload of a request that is not
/// complete. But a request with IBV_SEND_FENCE waits for READs and atomics before it, whose answers
/// may be its payload: that is not copied.
struct SendCopies {
  enum class State : uint8_t { kNone, kWanted, kOpening, kReady, kRefused };

  State state;
  uint8_t* memory;
  uint32_t segment;  ///< The daemon's handles.
  uint32_t region;
  uint32_t lkey;
  CopyRing ring;
};

/// Copies the payload of `wr`, which comes next in the send queue, if the daemon would have to copy
/// it, and if there is room. True: `place` is its only SGE now. The caller holds the queue's lock.
bool CopyPayload(QueuePair& queue_pair, const ibv_send_wr& wr, ibv_sge* place);
/// Makes the ring, if CopyPayload has missed it. The caller does not hold the queue's lock.
void MakeWantedRing(QueuePair& queue_pair);
/// Ends the ring of a queue pair that the daemon has ended.
void EndSendCopies(QueuePair& queue_pair);

}  // namespace uroce::shim
