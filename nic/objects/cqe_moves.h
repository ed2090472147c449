// SPDX-License-Identifier: Apache-2.0
// Moves CQEs from the old rings of a resized completion queue to the new ones.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/datapath/queue/completion_ring.h"
#include "pipeline/shm/rings/cqe_ring.h"

namespace uroce::nic {

/// The program waits for the end, and the workers write behind these CQEs, so they may be moved
/// some at a time. Control thread.
class CqeMoves {
 public:
  void Add(const datapath::CompletionRing::Moved& ring, const rings::CqeRingLayout& to) {
    rings_.push_back({ring, to});
  }
  /// Moves up to `most` CQEs. Returns false when some are left.
  bool MoveSome(uint32_t most);

 private:
  struct Ring {
    datapath::CompletionRing::Moved moved;
    rings::CqeRingLayout to;
    uint32_t done = 0;  ///< CQEs that are moved.
  };
  std::vector<Ring> rings_;  ///< The unfinished rings; taken from the back.
};

}  // namespace uroce::nic
