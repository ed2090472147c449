// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/remapped_regions.h"

#include <algorithm>
#include <utility>

#include "nic/objects/regions.h"
#include "nic/objects/remapped_parts.h"
#include "nic/objects/segments.h"

namespace uroce::nic {
namespace {

/// Releases segments that no part of the region points into any more.
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

void RemappedRegions::Add(MemoryObject& memory) {
  const auto& parts = memory.region.segments;
  if (std::any_of(parts.begin(), parts.end(), [](const auto& p) { return p.follows_address; })) {
    regions_.insert(&memory);
  }
}

// Workers see the old or the new region; neither changes while they may read it.
void RemappedRegions::Replace(MemoryObject& memory, std::vector<datapath::MrSegment> parts,
                              const std::vector<std::shared_ptr<Segment>>& segments) {
  datapath::MemoryRegion next = memory.region;
  next.segments = parts;
  core_.nic().keys().Replace(&memory.region, &next);
  core_.AwaitGrace();
  memory.region.segments = std::move(parts);
  core_.nic().keys().Replace(&next, &memory.region);
  core_.AwaitGrace();
  memory.segments.insert(memory.segments.end(), segments.begin(), segments.end());
  DropUnused(memory);
}

bool RemappedRegions::Map(const MemoryObject& memory) {
  bool replaced = false;
  for (MemoryObject* older : regions_) {
    std::vector<datapath::MrSegment> parts =
        MapRemapped(older->region.segments, memory.region.segments);
    if (parts.empty()) continue;
    const uint32_t access = older->region.access;
    if (!std::ranges::all_of(memory.segments, [access](const auto& its) {
          return AllowAccess(*its, access).ok();
        })) {
      continue;
    }
    Replace(*older, std::move(parts), memory.segments);
    replaced = true;
  }
  return replaced;
}

void RemappedRegions::Unmap(std::span<const uint8_t> mapping) {
  for (MemoryObject* older : regions_) {
    std::vector<datapath::MrSegment> parts = CopyRemapped(older->region.segments, mapping);
    if (!parts.empty()) Replace(*older, std::move(parts), {});
  }
}

}  // namespace uroce::nic
