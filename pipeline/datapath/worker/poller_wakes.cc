// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/poller_wakes.h"

#include "pipeline/datapath/queue/completion_queue.h"

namespace uroce::datapath {

void PollerWakes::WakeAll() {
  for (CompletionRing* ring : rings_) {
    ring->set_waking(false);
    ring->queue().config().pollers.Wake();
  }
  rings_.clear();
}

void PollerWakes::Remove(CompletionRing* ring) {
  std::erase(rings_, ring);
  ring->set_waking(false);
}

}  // namespace uroce::datapath
