// SPDX-License-Identifier: Apache-2.0
// Copies segments' pages before a fork and moves the copies into place in the child.
#include "verbs-shim/memory/fork_copy.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include "verbs-shim/memory/copy_bytes.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {

void ForkCopy::Take(const SegmentTable& segments, MappedArray<Vma>& mappings) {
  pieces_.Clear();
  mappings.Clear();
  if (ReadMaps({0, UINT64_MAX}, mappings) != 0) return;
  for (const Vma& vma : mappings) {
    if (vma.kind != VmaKind::kSegment) continue;
    const uint64_t kept = segments.KeptInPlace(vma);
    (void)pieces_.Append(kept != 0 ? CopyToKept(vma, kept) : CopyOf(vma));
  }
}

ForkCopy::Piece ForkCopy::CopyToKept(const Vma& vma, uint64_t kept) {
  const uint64_t length = vma.end - vma.start;
  SystemCall(SYS_mprotect, kept, length, PROT_READ | PROT_WRITE);
  if (vma.readable) CopyUsedPages(kept, vma.start, length);
  return {.address = vma.start,
          .length = length,
          .copy = kept,
          .protection = ProtectionOf(vma),
          .is_kept = true};
}

ForkCopy::Piece ForkCopy::CopyOf(const Vma& vma) {
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
  CopyBytes(piece.copy, piece.address, piece.length);
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
