// SPDX-License-Identifier: Apache-2.0
#include "nic/resources/following_segments.h"

#include <algorithm>

namespace uroce::nic {
namespace {

using datapath::MrMode;
using datapath::MrSegment;

uint64_t EndOf(const MrSegment& segment) { return segment.app_addr + segment.length_bytes; }

bool Follows(const MrSegment& segment, const MrSegment& mapped) {
  return segment.follows_address && segment.app_addr < EndOf(mapped) &&
         mapped.app_addr < EndOf(segment);
}

/// The bytes of `segment` at the program's addresses [from, to).
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
  part.reason = 0;
  return part;
}

}  // namespace

bool AnyFollows(const std::vector<MrSegment>& segments, const MrSegment& mapped) {
  return std::any_of(segments.begin(), segments.end(),
                     [&mapped](const MrSegment& segment) { return Follows(segment, mapped); });
}

std::vector<MrSegment> MapFollowing(const std::vector<MrSegment>& segments,
                                    const MrSegment& mapped) {
  std::vector<MrSegment> result;
  for (const MrSegment& segment : segments) {
    if (!Follows(segment, mapped)) {
      result.push_back(segment);
      continue;
    }
    const uint64_t from = std::max(segment.app_addr, mapped.app_addr);
    const uint64_t to = std::min(EndOf(segment), EndOf(mapped));
    if (segment.app_addr < from) result.push_back(PartOf(segment, segment.app_addr, from));
    result.push_back(MappedPart(segment, mapped, from, to));
    if (to < EndOf(segment)) result.push_back(PartOf(segment, to, EndOf(segment)));
  }
  return result;
}

}  // namespace uroce::nic
