// SPDX-License-Identifier: Apache-2.0
// Sorts a burst of frames into groups that the kernel can take as one superframe each.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "pipeline/wire/superframe.h"

namespace uroce::drivers {

inline std::span<uint8_t> FrameBytes(rte_mbuf& frame) {
  return {rte_pktmbuf_mtod(&frame, uint8_t*), frame.data_len};
}

/// The frames of a burst, in groups that leave as one superframe each. A flow's frames keep their
/// order: a frame that does not fit its flow's newest group begins another. One thread.
class FrameGroups {
 public:
  static constexpr uint16_t kMostFrames = 64;
  static constexpr uint8_t kNoFrame = 0xff;

  struct Group {
    std::optional<wire::SuperframeBuilder> builder;
    uint8_t first = 0;  ///< Index into the burst; NextOf leads from one frame to the next.
    uint8_t last = 0;
  };

  /// `joins`: groups may have more than one frame. Range: `count` up to kMostFrames.
  void Make(rte_mbuf* const* frames, uint16_t count, bool joins);
  uint16_t size() const { return size_; }
  const Group& operator[](uint16_t index) const { return groups_[index]; }
  uint8_t NextOf(uint8_t frame) const { return next_[frame]; }
  /// Frees the frames of the first `sent` groups, and moves the others, in the order of their
  /// groups, behind them. `frames` and `count` are those of Make. Returns how many were freed.
  uint16_t Release(uint16_t sent, rte_mbuf** frames, uint16_t count) const;

 private:
  void Place(rte_mbuf& frame, uint8_t index, bool joins);

  std::array<Group, kMostFrames> groups_;
  std::array<uint8_t, kMostFrames> next_{};
  uint16_t size_ = 0;
};

}  // namespace uroce::drivers
