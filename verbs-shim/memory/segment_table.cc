// SPDX-License-Identifier: Apache-2.0
// References of memory regions to pages of segments.
#include "verbs-shim/memory/segment_table.h"

#include <algorithm>

namespace uroce::memory {

uint32_t SegmentTable::Add(const void* connection, const SegmentExtent& extent, uroce_mr_mode mode,
                           uint32_t handle) {
  return entries_.Add({.connection = connection,
                       .extent = extent,
                       .mode = mode,
                       .swapped = {},
                       .handle = handle,
                       .first_reference = kNone,
                       .last_reference = kNone});
}

uint32_t SegmentTable::AddReference(const PageReference& reference) {
  Entry& entry = entries_[reference.segment];
  const uint32_t last = entry.last_reference;
  const uint32_t index = references_.Add({.what = reference, .previous = last, .next = kNone});
  if (index == kNone) return kNone;
  (last == kNone ? entry.first_reference : references_[last].next) = index;
  entry.last_reference = index;
  return index;
}

PageReference SegmentTable::DropReference(uint32_t reference) {
  const Reference dropped = references_[reference];
  Entry& entry = entries_[dropped.what.segment];
  const uint32_t previous = dropped.previous, next = dropped.next;
  (previous == kNone ? entry.first_reference : references_[previous].next) = next;
  (next == kNone ? entry.last_reference : references_[next].previous) = previous;
  references_.Remove(reference);
  return dropped.what;
}

/// Tries the oldest references first: small regions mostly lie in a large one that was there
/// before.
bool SegmentTable::ListUnreferenced(const PageReference& of, MappedArray<AddressRange>& references,
                                    MappedArray<AddressRange>& pages) const {
  references.Clear();
  uint32_t next = entries_[of.segment].first_reference;
  for (; next != kNone; next = references_[next].next) {
    const AddressRange other = references_[next].what.pages;
    if (other.start <= of.pages.start && of.pages.end <= other.end) return true;
    if (other.Meets(of.pages) && !references.Append(other)) return false;
  }
  std::sort(references.begin(), references.end(),
            [](AddressRange left, AddressRange right) { return left.start < right.start; });
  uint64_t at = of.pages.start;
  for (const AddressRange& other : references) {
    if (at < other.start && !pages.Append({at, other.start})) return false;
    if (at < other.end) at = other.end;
  }
  return at >= of.pages.end || pages.Append({at, of.pages.end});
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
  for (uint32_t index = 0; index < entries_.end_index(); ++index) {
    const Entry& entry = entries_[index];
    if (!IsReferenced(index) || entry.swapped.kept == 0) continue;
    if (entry.extent.inode == vma.inode && entry.extent.device == vma.device) return &entry;
  }
  return nullptr;
}

bool SegmentTable::ListLive(const void* connection, MappedArray<LiveSegment>& live) const {
  for (uint32_t index = 0; index < entries_.end_index(); ++index) {
    const Entry& entry = entries_[index];
    if (!IsReferenced(index) || entry.connection != connection) continue;
    if (!live.Append({entry.extent, index})) return false;
  }
  return true;
}

}  // namespace uroce::memory
