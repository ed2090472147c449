// SPDX-License-Identifier: Apache-2.0
// Collects the segments of a region when one message cannot hold all of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// Collects the segments that precede REG_MR. Bounded by UROCE_MAX_MR_PARTS. Pure.
class SegmentList {
 public:
  /// Adds the `count` segments in `bytes` as numbers `first` and following; `first` 0 starts anew.
  /// Errors: InvalidArgument.
  absl::Status Add(uint32_t first, uint32_t count, std::span<const uint8_t> bytes);
  /// Returns all `count` segments of a region; `bytes` holds the last ones. If `bytes` holds all of
  /// them, the collected segments stay for another region. Errors: InvalidArgument.
  absl::StatusOr<std::vector<uroce_mr_segment>> Take(uint32_t count,
                                                     std::span<const uint8_t> bytes);

 private:
  std::vector<uroce_mr_segment> collected_;
};

}  // namespace uroce::nic
