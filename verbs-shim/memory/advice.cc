// SPDX-License-Identifier: Apache-2.0
// Applies advice to mappings of segments, which are shared where the program's own were private.
#include "verbs-shim/memory/advice.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <cerrno>

#include "verbs-shim/memory/registry.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {
namespace {

constexpr int kDontNeedLocked = 24;  // MADV_DONTNEED_LOCKED, which Debian 12's headers lack.

int64_t Tell(AddressRange range, int advice) {
  return SystemCall(SYS_madvise, range.start, range.end - range.start, advice);
}

/// Whether the advice becomes a lasting property of the mapping.
bool IsLasting(int advice) {
  switch (advice) {
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_DONTFORK:
    case MADV_DOFORK:
    case MADV_MERGEABLE:
    case MADV_UNMERGEABLE:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_DONTDUMP:
    case MADV_DODUMP:
    case MADV_WIPEONFORK:
    case MADV_KEEPONFORK:
      return true;
    default:
      return false;
  }
}

/// Advises the segment's mapping and the kept one, and returns the kept one's result, as the
/// program's own memory would give it. A child made by clone runs no handlers, and has the
/// segment's mapping.
int64_t TellBoth(const Registry& registry, const Vma& vma, AddressRange range, int advice) {
  const int64_t shared = Tell(range, advice);
  const uint64_t kept = registry.segments.KeptFor(vma, range);
  if (kept == 0) return shared;
  return Tell({kept, kept + (range.end - range.start)}, advice);
}

/// Dropped pages of shared memory are still in the file: only a hole in the file reads as zeros.
int64_t Drop(AddressRange range, int advice) {
  const int64_t result = Tell(range, advice);  // Fails where memory is locked.
  return result == 0 ? Tell(range, MADV_REMOVE) : result;
}

int64_t AdviseSegment(const Registry& registry, const Vma& vma, AddressRange range, int advice) {
  if (advice == MADV_DONTNEED || advice == kDontNeedLocked) return Drop(range, advice);
  if (advice == MADV_FREE) return 0;  // The kernel may free the pages at any later time.
  if (advice == MADV_REMOVE) return -EINVAL;
  if (IsLasting(advice)) return TellBoth(registry, vma, range, advice);
  return Tell(range, advice);
}

/// Advises `range` in pieces: each segment, and all between two segments. Like the kernel, it goes
/// on after a gap and reports the gap at the end.
int64_t AdvisePieces(const Registry& registry, AddressRange range, int advice) {
  bool has_gap = false;
  uint64_t at = range.start;
  const auto note = [&has_gap](int64_t result) {
    has_gap |= result == -ENOMEM;
    return result == -ENOMEM ? 0 : result;
  };
  for (const Vma& vma : registry.returned) {
    if (vma.kind != VmaKind::kSegment || !vma.range().Meets(range)) continue;
    const AddressRange piece{vma.start > at ? vma.start : at,
                             vma.end < range.end ? vma.end : range.end};
    int64_t result = at < piece.start ? note(Tell({at, piece.start}, advice)) : 0;
    if (result == 0) result = note(AdviseSegment(registry, vma, piece, advice));
    if (result != 0) return result;
    at = piece.end;
  }
  if (at < range.end) {
    const int64_t result = note(Tell({at, range.end}, advice));
    if (result != 0) return result;
  }
  return has_gap ? -ENOMEM : 0;
}

}  // namespace

int64_t Advise(uint64_t address, uint64_t length, int advice) {
  const AddressRange range{address, PageUp(address + length)};
  const bool is_plain =
      address % kPageBytes != 0 || range.end <= range.start || !MayBeSwapped(range);
  if (is_plain) return SystemCall(SYS_madvise, address, length, advice);
  const RegistryVisit registry;
  if (registry.is_own()) return SystemCall(SYS_madvise, address, length, advice);
  if (!registry.is_inside()) return -EAGAIN;
  if (FindMaps(range, range, registry->returned) != 0) return -EAGAIN;
  return AdvisePieces(*registry, range, advice);
}

}  // namespace uroce::memory
