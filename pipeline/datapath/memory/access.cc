// SPDX-License-Identifier: Apache-2.0
// Regions of several segments, and accesses through windows.
#include "pipeline/datapath/memory/access.h"

#include "pipeline/datapath/memory/memory_window.h"

namespace uroce::datapath {
namespace {

// What the region must allow, whatever the window grants: another region may have the key by now.
uint32_t RightsOfRegion(uint32_t rights) {
  return (rights & (kRemoteWrite | kRemoteAtomic)) != 0 ? kWindowBind | kLocalWrite : kWindowBind;
}

}  // namespace

// The order of checks is that of docs/protocol/transport.md, section 8: key, state, protection
// domain and queue pair, rights, bounds.
Grant CheckWindowAccess(const KeyTable& keys, uint32_t key, uint64_t va, uint64_t length_bytes,
                        const AccessRight& right) {
  const MemoryRegion* entry = keys.Find(key & ~kKeyVariant);
  if (entry == nullptr || entry->window == nullptr) return {};
  const MemoryWindow& window = *entry->window;
  const std::optional<WindowBinding> binding = window.Read(key);
  if (!binding || window.pd() != right.pd) return {};
  if (window.type() == MemoryWindow::Type::kType2 && binding->qpn != right.qpn) return {};
  // A window has no lkey: local accesses need no right of a window, or one that no window has.
  const bool is_remote = right.rights != kLocalRead;
  if (!is_remote || (binding->access & right.rights) != right.rights) return {};
  const uint64_t offset = (binding->access & kZeroBased) != 0 ? va : va - binding->addr;
  if (offset > binding->length_bytes || length_bytes > binding->length_bytes - offset) return {};
  const MemoryRegion* region = keys.Find(binding->region_key);
  if (region == nullptr || region->pd != right.pd) return {};
  const uint32_t needed = RightsOfRegion(right.rights);
  const uint64_t in_region = binding->addr + offset;
  if ((region->access & needed) != needed) return {};
  return Contains(*region, in_region, length_bytes) ? Grant{region, in_region} : Grant{};
}

// Segments of equal size, such as huge pages, are found at the first guess.
Piece PieceOfMany(const MemoryRegion& region, uint64_t va, uint32_t length_bytes) {
  const uint64_t count = region.segments.size();
  const uint64_t guess = std::min((va - region.iova) / (region.length_bytes / count), count - 1);
  const MrSegment& guessed = region.segments[guess];
  if (va - guessed.iova < guessed.length_bytes) {
    return PieceOfSegment(guessed, va, length_bytes);
  }
  const auto behind =
      std::upper_bound(region.segments.begin(), region.segments.end(), va,
                       [](uint64_t at, const MrSegment& segment) { return at < segment.iova; });
  return PieceOfSegment(*(behind - 1), va, length_bytes);
}

}  // namespace uroce::datapath
