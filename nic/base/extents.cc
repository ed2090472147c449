// SPDX-License-Identifier: Apache-2.0
#include "nic/base/extents.h"

#include <iterator>

namespace uroce {

Extents::Extents(uint64_t begin, uint64_t end, uint64_t grain)
    : grain_(grain), free_bytes_(end - begin) {
  free_.emplace(begin, end - begin);
}

std::optional<uint64_t> Extents::Take(uint64_t length) {
  if (length == 0 || length > free_bytes_) return std::nullopt;
  const uint64_t wanted = RoundUp(length);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, available] = *it;
    if (available < wanted) continue;
    free_.erase(it);
    if (available > wanted) free_.emplace(offset + wanted, available - wanted);
    free_bytes_ -= wanted;
    return offset;
  }
  return std::nullopt;
}

void Extents::Give(uint64_t offset, uint64_t length) {
  uint64_t end = offset + RoundUp(length);
  free_bytes_ += end - offset;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == end) {
    end += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second = end - previous->first;
      return;
    }
  }
  free_.emplace(offset, end - offset);
}

}  // namespace uroce
