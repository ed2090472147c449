// SPDX-License-Identifier: Apache-2.0
// Regions whose copied parts a later region maps.
#include <algorithm>

#include "nic/resources/following_segments.h"
#include "nic/resources/program.h"

namespace uroce::nic {
namespace {

// Parts of one region. More are not made by good programs, and cost the control thread.
constexpr size_t kMaxParts = 1024;

/// The parts of `follower` with all that `memory` maps mapped alike; nothing when nothing changes.
std::vector<datapath::MrSegment> PartsUnder(const MemoryObject& follower,
                                            const MemoryObject& memory) {
  std::vector<datapath::MrSegment> parts = follower.region.segments;
  bool changed = false;
  for (const datapath::MrSegment& segment : memory.region.segments) {
    if (segment.mode != datapath::MrMode::kMapped || !AnyFollows(parts, segment)) continue;
    parts = MapFollowing(parts, segment);
    changed = true;
  }
  if (!changed || parts.size() > kMaxParts) parts.clear();
  return parts;
}

/// Lets go of segments that no part of the region points into any more.
void DropUnused(MemoryObject& memory) {
  const auto& parts = memory.region.segments;
  std::erase_if(memory.segments, [&parts](const std::shared_ptr<Segment>& segment) {
    const uint8_t* start = segment->mapping.data();
    const uint8_t* end = start + segment->mapping.length();
    return std::none_of(parts.begin(), parts.end(), [&](const datapath::MrSegment& part) {
      return part.mode == datapath::MrMode::kMapped && start <= part.mapped && part.mapped < end;
    });
  });
}

}  // namespace

// Workers see one region or the other; neither changes while they may look at it.
void Program::Replace(MemoryObject& follower, std::vector<datapath::MrSegment> parts,
                      const MemoryObject& memory) {
  datapath::MemoryRegion next = follower.region;
  next.segments = parts;
  nic_.keys().Replace(&follower.region, &next);
  AwaitGrace();
  follower.region.segments = std::move(parts);
  nic_.keys().Replace(&next, &follower.region);
  AwaitGrace();
  follower.segments.insert(follower.segments.end(), memory.segments.begin(), memory.segments.end());
  DropUnused(follower);
}

bool Program::MapFollowers(const MemoryObject& memory) {
  bool replaced = false;
  for (MemoryObject* follower : followers_) {
    std::vector<datapath::MrSegment> parts = PartsUnder(*follower, memory);
    if (parts.empty()) continue;
    for (const std::shared_ptr<Segment>& segment : memory.segments) {
      if (!AllowAccess(*segment, follower->region.access).ok()) return replaced;
    }
    Replace(*follower, std::move(parts), memory);
    replaced = true;
  }
  return replaced;
}

}  // namespace uroce::nic
