// SPDX-License-Identifier: Apache-2.0
// A burst for a socket of the kernel: its frames grouped by flow, each group one superframe; and
// when a socket that was full is tried again.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "pipeline/base/types.h"
#include "pipeline/wire/superframe.h"

namespace uroce::drivers {

// Sorts a burst of frames into groups that the kernel can take as one superframe each.

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

// When a socket that the kernel had no room for is tried again, and when its frames are given up.

/// One thread.
class TransmitGate {
 public:
  /// A socket or queue of the kernel that was full is tried again after this time.
  static constexpr Nanos kTryAgain{20'000};
  /// After this time of refusals frames are dropped: the interface or host does not send.
  static constexpr Nanos kRefusalLimit{1'000'000'000};

  /// Whether frames may be given to the kernel.
  bool is_open() const { return try_again_at_ == kNever; }
  /// When a closed gate opens; kNever for an open one.
  Nanos opens_at() const { return try_again_at_; }
  /// Opens the gate if it is time.
  void Advance(Nanos now) {
    if (try_again_at_ <= now) try_again_at_ = kNever;
  }
  /// The kernel has taken frames, if `took_some`, and refused the next one, if `is_full`, which
  /// closes the gate. True: it has taken none for so long that the frames are to be dropped.
  [[nodiscard]] bool GivesUp(bool took_some, bool is_full, Nanos now) {
    if (took_some || !is_full) refused_since_ = kNever;
    if (!is_full) return false;
    if (refused_since_ == kNever) refused_since_ = now;
    if (now - refused_since_ >= kRefusalLimit) return true;
    try_again_at_ = now + kTryAgain;
    return false;
  }

 private:
  Nanos try_again_at_ = kNever;
  Nanos refused_since_ = kNever;
};

}  // namespace uroce::drivers
