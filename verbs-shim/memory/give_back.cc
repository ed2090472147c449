// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/give_back.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>

#include "verbs-shim/memory/pages.h"
#include "verbs-shim/memory/remap.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {
namespace {

constexpr AddressRange kWholeFile{0, UINT64_MAX};

/// The pages of a segment that are to be given back.
struct Wanted {
  const SegmentExtent& extent;
  RemappedMemory& remapped;
  std::span<const AddressRange> pages;  // of the file, in rising offsets
  int64_t memfd;                        // which tells the holes of the segment; or negative
  uint64_t bytes;  // of these pages at their first place, if none has moved or gone
};

bool IsOf(const Vma& vma, const SegmentExtent& extent) {
  return vma.kind == VmaKind::kSegment && vma.inode == extent.inode && vma.device == extent.device;
}

/// The part of `vma` from `from` to `to`, cut at its ends.
Vma PartOf(const Vma& vma, uint64_t from, uint64_t to) {
  Vma part = vma;
  part.start = from;
  part.end = to;
  part.file_offset += from - vma.start;
  return part;
}

/// Appends the parts of `vma` that are among `pages`. False: no memory.
bool AppendParts(const Vma& vma, std::span<const AddressRange> pages, MappedArray<Vma>& parts) {
  const AddressRange shown{vma.file_offset, vma.file_offset + (vma.end - vma.start)};
  const auto* next = std::partition_point(
      pages.data(), pages.data() + pages.size(),
      [&shown](const AddressRange& range) { return range.end <= shown.start; });
  for (; next != pages.data() + pages.size() && next->start < shown.end; ++next) {
    const uint64_t from = std::max(next->start, shown.start) - shown.start;
    const uint64_t to = std::min(next->end, shown.end) - shown.start;
    if (!parts.Append(PartOf(vma, vma.start + from, vma.start + to))) return false;
  }
  return true;
}

/// Reduces `mappings` to the wanted parts. False: no memory.
bool SelectWanted(const Wanted& wanted, MappedArray<Vma>& mappings) {
  const size_t found = mappings.size();
  for (size_t i = 0; i < found; ++i) {
    const Vma vma = mappings[i];
    if (IsOf(vma, wanted.extent) && !AppendParts(vma, wanted.pages, mappings)) return false;
  }
  std::copy(mappings.begin() + found, mappings.end(), mappings.begin());
  mappings.Truncate(mappings.size() - found);
  return true;
}

bool AreAllInPlace(const Wanted& wanted, const MappedArray<Vma>& mappings) {
  const AddressRange place = wanted.remapped.pages;
  uint64_t bytes = 0;
  for (const Vma& vma : mappings) {
    if (vma.start != place.start + vma.file_offset || vma.end > place.end) return false;
    bytes += vma.end - vma.start;
  }
  return bytes == wanted.bytes;
}

/// Finds the wanted mappings: at their first place if all are there, as nearly always, or anywhere.
bool FindWanted(Wanted& wanted, MappedArray<Vma>& mappings) {
  const AddressRange all = wanted.remapped.pages;
  const AddressRange place{all.start + wanted.pages.front().start,
                           all.start + std::min(wanted.pages.back().end, all.end - all.start)};
  const AddressRange window{place.start - kPageBytes, place.end + kPageBytes};
  if (FindMaps(place, window, mappings) != 0 || !SelectWanted(wanted, mappings)) return false;
  if (AreAllInPlace(wanted, mappings)) return true;
  mappings.Clear();
  return ReadMaps({0, UINT64_MAX}, mappings) == 0 && SelectWanted(wanted, mappings);
}

/// Pages that mremap added to the segment have no kept mapping.
bool GiveBackMapping(const OtherThreads& others, const Vma& vma, const Wanted& wanted) {
  const uint64_t kept = wanted.remapped.kept, length = wanted.extent.length;
  const uint64_t kept_bytes = kept != 0 && vma.file_offset < length ? length - vma.file_offset : 0;
  const uint64_t split = vma.end - vma.start < kept_bytes ? vma.end : vma.start + kept_bytes;
  bool is_done = true;
  if (vma.start < split) {
    uint64_t place = kept + vma.file_offset;
    is_done = RemapBack(others, PartOf(vma, vma.start, split), wanted.memfd, place) == 0;
    // After this the kept mapping has a hole, which may be reused; its other parts are left there.
    if (place == 0) wanted.remapped.kept = 0;
  }
  uint64_t nowhere = 0;
  if (split == vma.end) return is_done;
  return RemapBack(others, PartOf(vma, split, vma.end), wanted.memfd, nowhere) == 0 && is_done;
}

/// Maps the same pages of the file a second time. The start is 0 where there is no room for it.
Vma Again(const Vma& vma) {
  const int64_t address = MapAgain(vma.range());
  if (IsError(address)) return PartOf(vma, 0, 0);
  Vma again = vma;
  again.start = static_cast<uint64_t>(address);
  again.end = again.start + (vma.end - vma.start);
  return again;
}

/// Unmaps what Again() made. `frees`: also removes these pages from the file, if the kernel lets
/// the program do so.
void UnmapAgain(const Vma& vma, bool frees) {
  if (vma.start == 0) return;
  const uint64_t length = vma.end - vma.start;
  if (frees) SystemCall(SYS_madvise, vma.start, length, MADV_REMOVE);
  SystemCall(SYS_munmap, vma.start, length);
}

}  // namespace

bool IsMapped(const SegmentExtent& extent, const RemappedMemory& remapped,
              MappedArray<Vma>& mappings) {
  const AddressRange place = remapped.pages;
  if (FindMaps(place, place, mappings) != 0) return true;
  return std::any_of(mappings.begin(), mappings.end(),
                     [&extent](const Vma& vma) { return IsOf(vma, extent); });
}

bool GiveBack(const OtherThreads& others, const SegmentExtent& extent, RemappedMemory& remapped,
              MappedArray<Vma>& mappings) {
  Wanted wanted{.extent = extent,
                .remapped = remapped,
                .pages = {&kWholeFile, 1},
                .memfd = HeldFile(extent, remapped),
                .bytes = extent.length - remapped.returned_bytes};
  bool is_done = FindWanted(wanted, mappings);
  if (is_done) {
    for (const Vma& vma : mappings) is_done &= GiveBackMapping(others, vma, wanted);
  }
  if (remapped.kept != 0) SystemCall(SYS_munmap, remapped.kept, extent.length);
  return is_done;
}

void GiveBackPages(const OtherThreads& others, const SegmentExtent& extent,
                   RemappedMemory& remapped, std::span<const AddressRange> pages,
                   MappedArray<Vma>& mappings) {
  Wanted wanted{.extent = extent,
                .remapped = remapped,
                .pages = pages,
                .memfd = HeldFile(extent, remapped),
                .bytes = 0};
  for (const AddressRange& range : pages) wanted.bytes += range.end - range.start;
  if (!FindWanted(wanted, mappings)) return;
  bool is_done = true;
  for (Vma& vma : mappings) {
    const Vma again = Again(vma);
    is_done &= GiveBackMapping(others, vma, wanted);
    vma = again;
  }
  // Not earlier: the program may have mapped the same pages twice.
  for (const Vma& vma : mappings) UnmapAgain(vma, is_done);
  if (is_done) remapped.returned_bytes += wanted.bytes;
}

}  // namespace uroce::memory
