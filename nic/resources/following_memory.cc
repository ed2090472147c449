// SPDX-License-Identifier: Apache-2.0
// Regions whose copied parts a later region maps.
#include <algorithm>

#include "nic/resources/following_segments.h"
#include "nic/resources/program.h"

namespace uroce::nic {
namespace {

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
                      const std::vector<std::shared_ptr<Segment>>& segments) {
  datapath::MemoryRegion next = follower.region;
  next.segments = parts;
  nic_.keys().Replace(&follower.region, &next);
  AwaitGrace();
  follower.region.segments = std::move(parts);
  nic_.keys().Replace(&next, &follower.region);
  AwaitGrace();
  follower.segments.insert(follower.segments.end(), segments.begin(), segments.end());
  DropUnused(follower);
}

bool Program::MapFollowers(const MemoryObject& memory) {
  bool replaced = false;
  for (MemoryObject* follower : followers_) {
    std::vector<datapath::MrSegment> parts =
        MapFollowing(follower->region.segments, memory.region.segments);
    if (parts.empty()) continue;
    const uint32_t access = follower->region.access;
    if (!std::ranges::all_of(memory.segments, [access](const auto& its) {
          return AllowAccess(*its, access).ok();
        })) {
      continue;
    }
    Replace(*follower, std::move(parts), memory.segments);
    replaced = true;
  }
  return replaced;
}

void Program::UnmapFollowers(std::span<const uint8_t> mapping) {
  for (MemoryObject* follower : followers_) {
    std::vector<datapath::MrSegment> parts = CopyFollowing(follower->region.segments, mapping);
    if (!parts.empty()) Replace(*follower, std::move(parts), {});
  }
}

}  // namespace uroce::nic
