// SPDX-License-Identifier: Apache-2.0
// From a segment's mappings back to private memory.
#include "verbs-shim/memory/give_back.h"

#include <sys/syscall.h>

#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {
namespace {

bool IsOf(const Vma& vma, const SegmentExtent& extent) {
  return vma.kind == VmaKind::kSegment && vma.inode == extent.inode && vma.device == extent.device;
}

void RemoveOthers(const SegmentExtent& extent, MappedArray<Vma>& mappings) {
  size_t kept = 0;
  for (size_t i = 0; i < mappings.size(); ++i) {
    if (IsOf(mappings[i], extent)) mappings[kept++] = mappings[i];
  }
  mappings.Truncate(kept);
}

/// Finds the segment's mappings: all where they were made, as nearly always, or anywhere.
bool FindMappings(const SegmentExtent& extent, AddressRange pages, MappedArray<Vma>& mappings) {
  const AddressRange window{pages.start - kPageBytes, pages.end + kPageBytes};
  if (FindMaps(pages, window, mappings) != 0) return false;
  RemoveOthers(extent, mappings);
  const bool is_whole = mappings.size() == 1 && mappings[0].start == pages.start &&
                        mappings[0].end == pages.end && mappings[0].file_offset == 0;
  if (is_whole) return true;
  mappings.Clear();
  if (ReadMaps({0, UINT64_MAX}, mappings) != 0) return false;
  RemoveOthers(extent, mappings);
  return true;
}

/// The bytes of `vma` from `from` on, below `to`.
Vma PartOf(const Vma& vma, uint64_t from, uint64_t to) {
  Vma part = vma;
  part.start = from;
  part.end = to;
  part.file_offset += from - vma.start;
  return part;
}

/// What mremap added to the segment was never kept anywhere.
bool GiveBackMapping(const FaultSupport* support, const Vma& vma, const SegmentExtent& extent,
                     uint64_t kept) {
  const uint64_t kept_bytes =
      kept != 0 && vma.file_offset < extent.length ? extent.length - vma.file_offset : 0;
  const uint64_t split = vma.end - vma.start < kept_bytes ? vma.end : vma.start + kept_bytes;
  bool is_done = true;
  if (vma.start < split) {
    is_done = SwapBack(support, PartOf(vma, vma.start, split), kept + vma.file_offset) == 0;
  }
  if (split < vma.end) is_done &= SwapBack(support, PartOf(vma, split, vma.end), 0) == 0;
  return is_done;
}

}  // namespace

bool GiveBack(const FaultSupport* support, const SegmentExtent& extent,
              const SwappedMemory& swapped, MappedArray<Vma>& mappings) {
  bool is_done = FindMappings(extent, swapped.pages, mappings);
  if (is_done) {
    for (const Vma& vma : mappings) {
      is_done &= GiveBackMapping(support, vma, extent, swapped.kept);
    }
  }
  if (swapped.kept != 0) SystemCall(SYS_munmap, swapped.kept, extent.length);
  return is_done;
}

}  // namespace uroce::memory
