// SPDX-License-Identifier: Apache-2.0
// Flow completion times in a fat tree under web search's flow sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/networks/fat_tree.h"

namespace uroce::networks {

/// Each NIC starts flows to others, chosen evenly, at random times (Poisson). Each flow is one
/// WRITE on its own connection.
struct Load {
  double part = 0.5;      ///< Payload started by a NIC, of its line.
  Nanos warm{5'000'000};  ///< Flows that start in this time are not measured.
  Nanos measured{20'000'000};
  /// Others go on starting until the measured ones are done, or for so long.
  Nanos most_more{100'000'000};
  uint64_t seed = 1;
};

/// Flows of up to `most_bytes`, and of more than those of the size before. A flow's slowdown is its
/// completion time over that on the idle network (FatTree::IdleTime), and at least 1.
struct SizeClass {
  uint32_t most_bytes = 0;
  uint64_t flows = 0;
  double mean = 0, p50 = 0, p95 = 0, p99 = 0;
};

struct CompletionTimes {
  std::vector<SizeClass> sizes;
  SizeClass all;
  uint64_t unfinished = 0;  ///< Of the measured flows; they count with the time that they had.
  uint64_t failed = 0;
  double lost = 0;      ///< Part of the frames that switches dropped.
  uint64_t pauses = 0;  ///< By PFC, of all links.
  /// Frames for which the simulation had no room: 0, or the result says nothing.
  uint64_t lost_slots = 0;
};

CompletionTimes RunCompletionTimes(const FatTree& tree, const NetworkConfig& config,
                                   const Load& load);

}  // namespace uroce::networks
