// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/segment_table.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>

#include "verbs-shim/memory/backing_file.h"
#include "verbs-shim/memory/pages.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {

// ---- Segments, and references to their pages ----

int64_t HeldFile(const SegmentExtent& extent, const RemappedMemory& remapped) {
  uint64_t device, inode;
  if (remapped.memfd < 0 || !IdentityOf(static_cast<int>(remapped.memfd), device, inode)) return -1;
  return device == extent.device && inode == extent.inode ? remapped.memfd : -1;
}

uint32_t SegmentTable::Add(const void* connection, const SegmentExtent& extent, uroce_mr_mode mode,
                           uint32_t handle) {
  return entries_.Add({.connection = connection,
                       .extent = extent,
                       .mode = mode,
                       .remapped = {},
                       .handle = handle,
                       .first_reference = kNone,
                       .last_reference = kNone,
                       .is_retained = false});
}

void SegmentTable::Remove(uint32_t index) {
  Entry& entry = entries_[index];
  const int64_t file = HeldFile(entry.extent, entry.remapped);
  if (file >= 0) SystemCall(SYS_close, file);
  if (entry.remapped.memfd >= 0) --held_files_;
  entry.is_retained = false;
  entries_.Remove(index);
}

void SegmentTable::Forget() {
  for (uint32_t index = 0; index < entries_.end_index(); ++index) {
    if (IsInUse(index)) Remove(index);
  }
  entries_.Clear();
  references_.Clear();
}

uint32_t SegmentTable::AddReference(const PageReference& reference) {
  Entry& entry = entries_[reference.segment];
  const uint32_t last = entry.last_reference;
  const uint32_t index = references_.Add({.what = reference, .previous = last, .next = kNone});
  if (index == kNone) return kNone;
  (last == kNone ? entry.first_reference : references_[last].next) = index;
  entry.last_reference = index;
  entry.is_retained = false;
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
  const Entry* entry = Find(vma);
  const uint64_t offset = vma.file_offset + (range.start - vma.start);
  if (entry == nullptr || entry->remapped.kept == 0) return 0;
  return entry->extent.Holds(offset, range.end - range.start) ? entry->remapped.kept + offset : 0;
}

uint64_t SegmentTable::KeptInPlace(const Vma& vma) const {
  const Entry* entry = Find(vma);
  if (entry == nullptr || entry->remapped.pages.start + vma.file_offset != vma.start) return 0;
  return KeptFor(vma, vma.range());
}

int64_t SegmentTable::FileOf(const Vma& vma) const {
  const Entry* entry = Find(vma);
  return entry == nullptr ? -1 : HeldFile(entry->extent, entry->remapped);
}

const SegmentTable::Entry* SegmentTable::Find(const Vma& vma) const {
  for (uint32_t index = 0; index < entries_.end_index(); ++index) {
    const Entry& entry = entries_[index];
    if (!IsInUse(index) || entry.mode != UROCE_MR_MAPPED) continue;
    if (entry.extent.inode == vma.inode && entry.extent.device == vma.device) return &entry;
  }
  return nullptr;
}

bool SegmentTable::ListLive(const void* connection, MappedArray<LiveSegment>& live) const {
  for (uint32_t index = 0; index < entries_.end_index(); ++index) {
    const Entry& entry = entries_[index];
    if (!IsInUse(index) || entry.connection != connection) continue;
    if (!live.Append({entry.extent, index})) return false;
  }
  return true;
}

// ---- Copies for fork children, made before the fork and moved into place in the child ----

void ForkCopy::Take(const SegmentTable& segments, MappedArray<Vma>& mappings) {
  pieces_.Clear();
  mappings.Clear();
  if (ReadMaps({0, UINT64_MAX}, mappings) != 0) return;
  for (const Vma& vma : mappings) {
    if (vma.kind != VmaKind::kSegment) continue;
    const uint64_t kept = segments.KeptInPlace(vma);
    const int64_t file = segments.FileOf(vma);
    (void)pieces_.Append(kept != 0 ? CopyToKept(vma, file, kept) : CopyOf(vma, file));
  }
}

ForkCopy::Piece ForkCopy::CopyToKept(const Vma& vma, int64_t file, uint64_t kept) {
  const uint64_t length = vma.end - vma.start;
  SystemCall(SYS_mprotect, kept, length, PROT_READ | PROT_WRITE);
  if (vma.readable) FilePages(file).Copy(vma.file_offset, vma.start, length, kept);
  return {.address = vma.start,
          .length = length,
          .copy = kept,
          .protection = ProtectionOf(vma),
          .is_kept = true};
}

ForkCopy::Piece ForkCopy::CopyOf(const Vma& vma, int64_t file) {
  Piece piece{.address = vma.start,
              .length = vma.end - vma.start,
              .copy = 0,
              .protection = ProtectionOf(vma),
              .is_kept = false};
  if (!vma.readable) return piece;
  const int64_t copy = SystemCall(SYS_mmap, 0, piece.length, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (IsError(copy)) return piece;
  piece.copy = static_cast<uint64_t>(copy);
  // Copies at 0.16 ms/MB instead of 1 ms/MB, nearly all of which is page faults.
  SystemCall(SYS_madvise, copy, piece.length, MADV_HUGEPAGE);
  FilePages(file).Copy(vma.file_offset, piece.address, piece.length, piece.copy);
  return piece;
}

void ForkCopy::Discard() {
  for (const Piece& piece : pieces_) {
    if (piece.is_kept) {
      SystemCall(SYS_madvise, piece.copy, piece.length, MADV_DONTNEED);
      SystemCall(SYS_mprotect, piece.copy, piece.length, PROT_NONE);
    } else if (piece.copy != 0) {
      SystemCall(SYS_munmap, piece.copy, piece.length);
    }
  }
  pieces_.Clear();
}

void ForkCopy::Install() {
  for (const Piece& piece : pieces_) {
    const bool is_moved =
        piece.copy != 0 && !IsError(SystemCall(SYS_mremap, piece.copy, piece.length, piece.length,
                                               MREMAP_MAYMOVE | MREMAP_FIXED, piece.address));
    if (is_moved && piece.protection != (PROT_READ | PROT_WRITE)) {
      SystemCall(SYS_mprotect, piece.address, piece.length, piece.protection);
    }
    if (is_moved) continue;
    if (piece.is_kept) {  // MADV_DONTFORK excludes it from a child.
      SystemCall(SYS_munmap, piece.address, piece.length);
      continue;
    }
    SystemCall(SYS_mmap, piece.address, piece.length, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  }
  pieces_.Clear();
}

}  // namespace uroce::memory
