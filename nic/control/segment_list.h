// SPDX-License-Identifier: Apache-2.0
// Collects the segments of a region, of which one message does not hold all.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// Collects what a program says before REG_MR. Bounded by UROCE_MAX_MR_PARTS. Pure.
class SegmentList {
 public:
  /// Adds `count` segments, of which `bytes` consists, as number `first` and on; 0 begins anew.
  /// Errors: InvalidArgument.
  absl::Status Add(uint32_t first, uint32_t count, std::span<const uint8_t> bytes);
  /// All `count` segments of a region, of which `bytes` holds the last ones. Where it holds all,
  /// what was collected stays for another region. Errors: InvalidArgument.
  absl::StatusOr<std::vector<uroce_mr_segment>> Take(uint32_t count,
                                                     std::span<const uint8_t> bytes);

 private:
  std::vector<uroce_mr_segment> collected_;
};

}  // namespace uroce::nic
