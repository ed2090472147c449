// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/cqe_moves.h"

#include <algorithm>

namespace uroce::nic {

bool CqeMoves::MoveSome(uint32_t most) {
  while (!rings_.empty()) {
    Ring& ring = rings_.back();
    const uint32_t waiting = ring.moved.waiting;
    const uint32_t end = ring.done + std::min(most, waiting - ring.done);
    rings::CopyWaiting(ring.moved.from, ring.moved.produced - waiting, ring.done, end, ring.to);
    most -= end - ring.done;
    ring.done = end;
    if (ring.done < waiting) return false;
    rings_.pop_back();
  }
  return true;
}

}  // namespace uroce::nic
