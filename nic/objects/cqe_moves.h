// SPDX-License-Identifier: Apache-2.0
// CQEs that a resize takes from the rings of a completion queue to fresh ones.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/datapath/queue/completion_ring.h"
#include "pipeline/shm/rings/cqe_ring.h"

namespace uroce::nic {

/// The program waits for the end, and the workers write behind these CQEs: so they may be moved
/// some at a time. Control thread.
class CqeMoves {
 public:
  void Add(const datapath::CompletionRing::Moved& ring, const rings::CqeRingLayout& to) {
    rings_.push_back({ring, to});
  }
  /// Moves up to `most` CQEs. False: some are left.
  bool MoveSome(uint32_t most);

 private:
  struct Ring {
    datapath::CompletionRing::Moved moved;
    rings::CqeRingLayout to;
    uint32_t done = 0;  ///< CQEs that are there.
  };
  std::vector<Ring> rings_;  ///< From the back on those that are not done.
};

}  // namespace uroce::nic
