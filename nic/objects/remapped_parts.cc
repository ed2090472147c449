// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/remapped_parts.h"

#include <algorithm>
#include <utility>

namespace uroce::nic {
namespace {

using datapath::MrMode;
using datapath::MrSegment;

uint64_t EndOf(const MrSegment& segment) { return segment.app_addr + segment.length_bytes; }

bool Follows(const MrSegment& segment, const MrSegment& mapped) {
  return segment.follows_address && segment.app_addr < EndOf(mapped) &&
         mapped.app_addr < EndOf(segment);
}

/// The part of `segment` at the program's addresses [from, to).
MrSegment PartOf(const MrSegment& segment, uint64_t from, uint64_t to) {
  const uint64_t offset = from - segment.app_addr;
  MrSegment part = segment;
  part.iova += offset;
  part.app_addr = from;
  part.length_bytes = to - from;
  if (part.mode == MrMode::kMapped) part.mapped += offset;
  return part;
}

MrSegment MappedPart(const MrSegment& segment, const MrSegment& mapped, uint64_t from,
                     uint64_t to) {
  MrSegment part = PartOf(segment, from, to);
  part.mode = MrMode::kMapped;
  part.mapped = mapped.mapped + (from - mapped.app_addr);
  part.is_own_file = mapped.is_own_file;
  return part;
}

/// Collects parts in rising addresses; joins adjacent copied ones.
class PartList {
 public:
  void Add(const MrSegment& part) {
    if (!parts_.empty() && Joins(parts_.back(), part)) {
      parts_.back().length_bytes += part.length_bytes;
    } else {
      parts_.push_back(part);
    }
  }
  size_t size() const { return parts_.size(); }
  std::vector<MrSegment> Take() { return std::move(parts_); }

 private:
  static bool Joins(const MrSegment& left, const MrSegment& right) {
    return left.mode == MrMode::kCopied && right.mode == MrMode::kCopied &&
           left.reason == right.reason && left.may_wait == right.may_wait &&
           left.follows_address == right.follows_address;
  }

  std::vector<MrSegment> parts_;
};

/// Adds `segment`, mapped where a part of `newer` from `next` on has it. True: it was changed.
bool AddMapped(const MrSegment& segment, std::vector<MrSegment>::const_iterator next,
               std::vector<MrSegment>::const_iterator end, PartList& parts) {
  bool changed = false;
  uint64_t at = segment.app_addr;
  for (; next != end && next->app_addr < EndOf(segment); ++next) {
    if (next->mode != MrMode::kMapped || !Follows(segment, *next)) continue;
    const uint64_t from = std::max(at, next->app_addr);
    const uint64_t to = std::min(EndOf(segment), EndOf(*next));
    if (at < from) parts.Add(PartOf(segment, at, from));
    parts.Add(MappedPart(segment, *next, from, to));
    changed = true;
    at = to;
    if (parts.size() > kMaxRemappedParts) return changed;
  }
  if (at < EndOf(segment)) parts.Add(PartOf(segment, at, EndOf(segment)));
  return changed;
}

bool IsMappedIn(const MrSegment& segment, std::span<const uint8_t> mapping) {
  return segment.follows_address && segment.mode == MrMode::kMapped &&
         segment.mapped < mapping.data() + mapping.size() &&
         mapping.data() < segment.mapped + segment.length_bytes;
}

MrSegment CopiedAgain(MrSegment segment) {
  segment.mode = MrMode::kCopied;
  segment.mapped = nullptr;
  segment.is_own_file = false;
  return segment;
}

/// Adds `segment`; the part of it in `mapping` becomes copied.
void AddCopied(const MrSegment& segment, std::span<const uint8_t> mapping, PartList& parts) {
  const uint8_t* first = segment.mapped;
  const uint8_t* start = std::max(first, mapping.data());
  const uint8_t* end = std::min(first + segment.length_bytes, mapping.data() + mapping.size());
  const uint64_t from = segment.app_addr + static_cast<uint64_t>(start - first);
  const uint64_t to = segment.app_addr + static_cast<uint64_t>(end - first);
  if (segment.app_addr < from) parts.Add(PartOf(segment, segment.app_addr, from));
  parts.Add(CopiedAgain(PartOf(segment, from, to)));
  if (to < EndOf(segment)) parts.Add(PartOf(segment, to, EndOf(segment)));
}

}  // namespace

std::vector<MrSegment> MapRemapped(const std::vector<MrSegment>& segments,
                                   const std::vector<MrSegment>& newer) {
  PartList parts;
  bool changed = false;
  for (const MrSegment& segment : segments) {
    const auto next = std::partition_point(
        newer.begin(), newer.end(),
        [&segment](const MrSegment& part) { return EndOf(part) <= segment.app_addr; });
    changed |= AddMapped(segment, next, newer.end(), parts);
    if (parts.size() > kMaxRemappedParts) return {};
  }
  return changed ? parts.Take() : std::vector<MrSegment>();
}

std::vector<MrSegment> CopyRemapped(const std::vector<MrSegment>& segments,
                                    std::span<const uint8_t> mapping, uint64_t room) {
  constexpr uint64_t kMostOfASplit = 2;  // further parts
  const auto is_mapped = [&mapping](const MrSegment& part) { return IsMappedIn(part, mapping); };
  if (std::none_of(segments.begin(), segments.end(), is_mapped)) return {};
  PartList parts;
  for (const MrSegment& segment : segments) {
    if (!is_mapped(segment)) {
      parts.Add(segment);
    } else if (parts.size() < kMaxRemappedParts && room >= kMostOfASplit) {
      const size_t before = parts.size();
      AddCopied(segment, mapping, parts);
      room -= std::max(parts.size(), before + 1) - before - 1;
    } else {
      parts.Add(CopiedAgain(segment));
    }
  }
  return parts.Take();
}

}  // namespace uroce::nic
