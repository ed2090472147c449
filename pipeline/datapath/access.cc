// SPDX-License-Identifier: Apache-2.0
// Regions of several segments.
#include "pipeline/datapath/access.h"

namespace uroce::datapath {

Piece PieceOfMany(const MemoryRegion& region, uint64_t va, uint32_t length_bytes) {
  const auto behind =
      std::upper_bound(region.segments.begin(), region.segments.end(), va,
                       [](uint64_t at, const MrSegment& segment) { return at < segment.iova; });
  return PieceOfSegment(*(behind - 1), va, length_bytes);
}

}  // namespace uroce::datapath
