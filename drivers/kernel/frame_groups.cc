// SPDX-License-Identifier: Apache-2.0
// A burst for a socket of the kernel: its frames grouped by flow, each group one superframe; and
// when a socket that was full is tried again.
#include "drivers/kernel/frame_groups.h"

#include <algorithm>

namespace uroce::drivers {
namespace {

// A frame is compared with so many of the newest groups.
constexpr uint16_t kMostLooks = 8;

}  // namespace

void FrameGroups::Make(rte_mbuf* const* frames, uint16_t count, bool joins) {
  size_ = 0;
  for (uint16_t i = 0; i < count; ++i) Place(*frames[i], static_cast<uint8_t>(i), joins);
}

void FrameGroups::Place(rte_mbuf& frame, uint8_t index, bool joins) {
  using Added = wire::SuperframeBuilder::Added;
  next_[index] = kNoFrame;
  const uint16_t looks = joins ? std::min(size_, kMostLooks) : 0;
  for (uint16_t back = 1; back <= looks; ++back) {
    Group& group = groups_[size_ - back];
    const Added added = group.builder->Add(FrameBytes(frame));
    if (added == Added::kOtherFlow) continue;
    if (added == Added::kDoesNotFit) break;
    next_[group.last] = index;
    group.last = index;
    return;
  }
  Group& group = groups_[size_++];
  group.builder.emplace(FrameBytes(frame));
  group.first = group.last = index;
}

uint16_t FrameGroups::Release(uint16_t sent, rte_mbuf** frames, uint16_t count) const {
  std::array<rte_mbuf*, kMostFrames> ordered;
  uint16_t used = 0;
  uint16_t freed = count;
  for (uint16_t i = 0; i < size_; ++i) {
    if (i == sent) freed = used;
    for (uint8_t at = groups_[i].first; at != kNoFrame; at = next_[at])
      ordered[used++] = frames[at];
  }
  std::copy_n(ordered.begin(), count, frames);
  rte_pktmbuf_free_bulk(frames, freed);
  return freed;
}

}  // namespace uroce::drivers
