// SPDX-License-Identifier: Apache-2.0
// References of memory regions to segments.
#include "verbs-shim/memory/segment_table.h"

namespace uroce::memory {

uint32_t SegmentTable::Add(const void* session, const SegmentExtent& extent, uroce_mr_mode mode,
                           uint32_t handle) {
  const Entry entry{.session = session,
                    .extent = extent,
                    .mode = mode,
                    .swapped = {},
                    .handle = handle,
                    .references = 1,
                    .next_free = kNone};
  const uint32_t index = first_free_;
  if (index != kNone) {
    first_free_ = entries_[index].next_free;
    entries_[index] = entry;
    return index;
  }
  if (!entries_.Append(entry)) return kNone;
  return static_cast<uint32_t>(entries_.size() - 1);
}

uint64_t SegmentTable::KeptFor(const Vma& vma, AddressRange range) const {
  const Entry* entry = FindKept(vma);
  const uint64_t offset = vma.file_offset + (range.start - vma.start);
  if (entry == nullptr || !entry->extent.Holds(offset, range.end - range.start)) return 0;
  return entry->swapped.kept + offset;
}

uint64_t SegmentTable::KeptInPlace(const Vma& vma) const {
  const Entry* entry = FindKept(vma);
  if (entry == nullptr || entry->swapped.pages.start + vma.file_offset != vma.start) return 0;
  return KeptFor(vma, vma.range());
}

const SegmentTable::Entry* SegmentTable::FindKept(const Vma& vma) const {
  for (const Entry& entry : entries_) {
    if (entry.references == 0 || entry.swapped.kept == 0) continue;
    if (entry.extent.inode == vma.inode && entry.extent.device == vma.device) return &entry;
  }
  return nullptr;
}

void SegmentTable::Remove(uint32_t index) {
  entries_[index].references = 0;
  entries_[index].next_free = first_free_;
  first_free_ = index;
}

bool SegmentTable::ListLive(const void* session, MappedArray<LiveSegment>& live) const {
  for (const Entry& entry : entries_) {
    if (entry.references == 0 || entry.session != session) continue;
    const auto index = static_cast<uint32_t>(&entry - entries_.begin());
    if (!live.Append({entry.extent, index})) return false;
  }
  return true;
}

}  // namespace uroce::memory
