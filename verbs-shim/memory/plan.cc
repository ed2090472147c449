// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/plan.h"

#include <sys/mman.h>

#include <cerrno>

namespace uroce::memory {
namespace {

// glibc places the heaps of its arenas at multiples of this: HEAP_MAX_SIZE, two times the largest
// mmap threshold.
constexpr uint64_t kArenaHeapBytes = 64 << 20;
constexpr uint64_t ArenaHeapDown(uint64_t address) { return address & ~(kArenaHeapBytes - 1); }

constexpr uint64_t Min(uint64_t left, uint64_t right) { return left < right ? left : right; }
constexpr uint64_t Max(uint64_t left, uint64_t right) { return left > right ? left : right; }

RegionPart CopiedPart(uint64_t start, uint64_t end, uroce_mr_reason reason) {
  return {.addr = start,
          .length = end - start,
          .kind = PartKind::kCopied,
          .reason = reason,
          .protection = 0,
          .pages = {0, 0},
          .vma = nullptr,
          .segment = 0,
          .file_offset = 0};
}

/// The length of the pieces in which a region is remapped, a multiple of a huge page.
constexpr uint64_t PieceBytes(AddressRange region) {
  const uint64_t share = (region.end - region.start) / kMostPieces;
  return Max(kPieceBytes, (share + kHugeBytes - 1) / kHugeBytes * kHugeBytes);
}

bool IsPrivateAnonymous(const Vma& vma) {
  return !vma.shared && (vma.kind == VmaKind::kAnonymous || vma.kind == VmaKind::kHeap);
}

bool IsReserve(const Vma& vma) {
  return !vma.readable && !vma.writable && vma.kind == VmaKind::kAnonymous;
}

bool AllowsAccess(const Vma& vma, bool needs_write) {
  return vma.kind != VmaKind::kSpecial && vma.readable && (vma.writable || !needs_write);
}

bool IsSameFile(const Vma& left, const Vma& right) {
  return left.inode == right.inode && left.device == right.device;
}

/// Extends `last` by `next`, if one part can describe both. Remaps are of one mapping each.
bool Join(RegionPart& last, const RegionPart& next) {
  if (last.kind != next.kind || last.addr + last.length != next.addr) return false;
  if (last.kind == PartKind::kCopied && last.reason != next.reason) return false;
  if (last.kind == PartKind::kRemap) return false;
  if (last.kind == PartKind::kShare) {
    if (!IsSameFile(*last.vma, *next.vma)) return false;
    if (last.file_offset + last.length != next.file_offset) return false;
  }
  if (last.kind == PartKind::kLive) {
    if (last.segment != next.segment) return false;
    if (last.file_offset + last.length != next.file_offset) return false;
  }
  last.length += next.length;
  return true;
}

/// One pass over the mappings of a region.
class Planner {
 public:
  Planner(const PlanRequest& request, const PlanFacts& facts, MappedArray<RegionPart>& parts)
      : request_(request), facts_(facts), parts_(parts), piece_bytes_(PieceBytes(request.region)) {}

  int Run() {
    uint64_t covered_to = request_.region.start;
    for (const Vma& vma : facts_.mappings) {
      if (!vma.range().Meets(request_.region)) continue;
      if (vma.start > covered_to || !AllowsAccess(vma, request_.needs_write)) return EFAULT;
      covered_to = Min(vma.end, request_.region.end);
      AddMapping(vma, {Max(vma.start, request_.region.start), covered_to});
    }
    if (covered_to < request_.region.end) return EFAULT;
    return out_of_memory_ ? ENOMEM : 0;
  }

 private:
  void AddMapping(const Vma& vma, AddressRange piece) {
    const uroce_mr_reason reason = WhyCopied(vma);
    if (reason != UROCE_WHY_NONE) {
      AddCopied(piece.start, piece.end, reason);
    } else if (vma.kind == VmaKind::kShared) {
      AddShared(vma, piece);
    } else if (vma.kind == VmaKind::kSegment) {
      AddSegment(vma, piece);
    } else {
      AddAroundUntouchable(vma, piece);
    }
  }

  /// Why a mapping must be copied, as far as the mapping alone tells.
  uroce_mr_reason WhyCopied(const Vma& vma) const {
    if (request_.policy == MrPolicy::kCopied) {
      const bool is_file = vma.kind == VmaKind::kShared || vma.kind == VmaKind::kFile;
      return is_file ? UROCE_WHY_POLICY_OF_FILE : UROCE_WHY_POLICY;
    }
    if (vma.kind == VmaKind::kShared) return UROCE_WHY_NONE;
    if (vma.kind == VmaKind::kStack) return UROCE_WHY_STACK;
    if (vma.kind == VmaKind::kFile) return UROCE_WHY_FILE_MAPPING;
    if (!vma.writable) return UROCE_WHY_READ_ONLY;
    if (!request_.knows_threads) return UROCE_WHY_UNKNOWN_THREADS;
    return UROCE_WHY_NONE;
  }

  /// Adds a shared piece: one live segment has all of it, or a new one will.
  void AddShared(const Vma& vma, AddressRange piece) {
    const uint64_t file_offset = vma.file_offset + (piece.start - vma.start);
    RegionPart part = CopiedPart(piece.start, piece.end, UROCE_WHY_NONE);
    part.kind = PartKind::kShare;
    part.vma = &vma;
    part.file_offset = file_offset;
    const LiveSegment* live = FindLive(vma, file_offset, part.length, request_.needs_write);
    if (live != nullptr) MakeLive(part, live->index, file_offset);
    Append(part);
  }

  /// Reuses the memfd of a live segment as far as the daemon maps it. Behind that (after mremap),
  /// and after the daemon has released the segment, the pages are treated as private ones.
  void AddSegment(const Vma& vma, AddressRange piece) {
    const uint64_t file_offset = vma.file_offset + (piece.start - vma.start);
    const LiveSegment* live = FindLive(vma, file_offset, 1, false);
    uint64_t live_end = piece.start;
    if (live != nullptr) {
      const uint64_t live_bytes = live->extent.offset + live->extent.length - file_offset;
      live_end += Min(piece.end - piece.start, live_bytes);
      RegionPart part = CopiedPart(piece.start, live_end, UROCE_WHY_NONE);
      MakeLive(part, live->index, file_offset);
      Append(part);
    }
    if (live_end < piece.end) AddAroundUntouchable(vma, {live_end, piece.end});
  }

  const LiveSegment* FindLive(const Vma& vma, uint64_t file_offset, uint64_t length,
                              bool needs_write) const {
    for (const LiveSegment& live : facts_.live) {
      const SegmentExtent& extent = live.extent;
      if (extent.inode != vma.inode || extent.device != vma.device) continue;
      if (needs_write && !extent.writable) continue;
      if (extent.Holds(file_offset, length)) return &live;
    }
    return nullptr;
  }

  void AddAroundUntouchable(const Vma& vma, AddressRange piece) {
    while (piece.start < piece.end) {
      const AddressRange hole = FirstUntouchable(piece);
      if (piece.start < hole.start) AddPages(vma, {piece.start, hole.start});
      if (hole.start < hole.end) AddCopied(hole.start, hole.end, UROCE_WHY_STACK);
      piece.start = hole.end;
    }
  }

  /// The lowest untouchable part of `piece`; an empty range at its end when there is none.
  AddressRange FirstUntouchable(AddressRange piece) const {
    AddressRange first{piece.end, piece.end};
    for (const AddressRange& range : facts_.untouchable) {
      if (!range.Meets(piece) || Max(range.start, piece.start) >= first.start) continue;
      first = {Max(range.start, piece.start), Min(range.end, piece.end)};
    }
    return first;
  }

  void AddPages(const Vma& vma, AddressRange piece) {
    const uint64_t first = PageDown(piece.start);
    const uint64_t last = PageUp(piece.end) - kPageBytes;
    AddressRange pages{first, last + kPageBytes};
    const uroce_mr_reason why_first = WhyNotWhole(vma, first);
    const uroce_mr_reason why_last = WhyNotWhole(vma, last);
    if (piece.start != pages.start && why_first != UROCE_WHY_NONE) pages.start += kPageBytes;
    if (piece.end != pages.end && why_last != UROCE_WHY_NONE) pages.end -= kPageBytes;
    if (pages.start >= pages.end) {
      const bool is_first = piece.start != first && why_first != UROCE_WHY_NONE;
      return AddCopied(piece.start, piece.end, is_first ? why_first : why_last);
    }
    if (piece.start < pages.start) AddCopied(piece.start, pages.start, why_first);
    AddRemap(vma, pages, {Max(piece.start, pages.start), Min(piece.end, pages.end)});
    if (pages.end < piece.end) AddCopied(pages.end, piece.end, why_last);
  }

  /// Why a page that the region covers in part may not be remapped; kNone if it may.
  uroce_mr_reason WhyNotWhole(const Vma& vma, uint64_t page) const {
    if (request_.policy == MrPolicy::kMapped) return UROCE_WHY_NONE;
    if (vma.kind == VmaKind::kHeap || MayLieInArena(page)) return UROCE_WHY_HEAP_PAGE;
    return request_.whole_partial_pages ? UROCE_WHY_NONE : UROCE_WHY_PARTIAL_PAGE;
  }

  /// The heap of a glibc arena starts at a multiple of its greatest size. The used part comes
  /// first, and then reserved address space, unless all of it is used.
  bool MayLieInArena(uint64_t page) const {
    const AddressRange heap{ArenaHeapDown(page), ArenaHeapDown(page) + kArenaHeapBytes};
    uint64_t used_to = heap.start;
    for (const Vma& vma : facts_.mappings) {
      if (vma.end <= used_to) continue;
      if (vma.start > used_to) return false;
      if (IsReserve(vma)) return page < used_to && vma.end >= heap.end;
      if (vma.kind != VmaKind::kSegment && !IsPrivateAnonymous(vma)) return false;
      used_to = vma.end;
      if (used_to >= heap.end) return true;
    }
    return false;
  }

  void AddCopied(uint64_t start, uint64_t end, uroce_mr_reason reason) {
    Append(CopiedPart(start, end, reason));
  }

  void AddRemap(const Vma& vma, AddressRange pages, AddressRange bytes) {
    while (pages.start < pages.end) {
      const AddressRange piece{pages.start, EndOfPiece(pages)};
      RegionPart part =
          CopiedPart(Max(bytes.start, piece.start), Min(bytes.end, piece.end), UROCE_WHY_NONE);
      part.kind = PartKind::kRemap;
      part.vma = &vma;
      part.protection = ProtectionOf(vma);
      part.pages = piece;
      Append(part);
      pages.start = piece.end;
    }
  }

  /// The end of the first piece. The last one takes what would be less than half a piece, too.
  uint64_t EndOfPiece(AddressRange pages) const {
    if (pages.end - pages.start <= piece_bytes_ + piece_bytes_ / 2) return pages.end;
    return (pages.start + piece_bytes_) / kHugeBytes * kHugeBytes;
  }

  void Append(const RegionPart& part) {
    if (!parts_.empty() && Join(parts_.back(), part)) return;
    if (!parts_.Append(part)) out_of_memory_ = true;
  }

  const PlanRequest& request_;
  const PlanFacts& facts_;
  MappedArray<RegionPart>& parts_;
  const uint64_t piece_bytes_;
  bool out_of_memory_ = false;
};

}  // namespace

AddressRange PlanWindow(AddressRange region) {
  if (region.start % kPageBytes == 0 && region.end % kPageBytes == 0) return region;
  return {ArenaHeapDown(region.start), ArenaHeapDown(region.end) + kArenaHeapBytes};
}

int Plan(const PlanRequest& request, const PlanFacts& facts, MappedArray<RegionPart>& parts) {
  parts.Clear();
  const int error = Planner(request, facts, parts).Run();
  if (error != 0 || parts.size() <= request.max_parts) return error;
  RegionPart& rest = parts[request.max_parts - 1];
  rest = CopiedPart(rest.addr, request.region.end, UROCE_WHY_MANY_PARTS);
  parts.Truncate(request.max_parts);
  return 0;
}

void MakeCopied(RegionPart& part, uroce_mr_reason reason) {
  part = CopiedPart(part.addr, part.addr + part.length, reason);
}

void MakeLive(RegionPart& part, uint32_t index, uint64_t file_offset) {
  part.kind = PartKind::kLive;
  part.segment = index;
  part.file_offset = file_offset;
}

void JoinParts(MappedArray<RegionPart>& parts) {
  size_t kept = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (kept > 0 && Join(parts[kept - 1], parts[i])) continue;
    parts[kept++] = parts[i];
  }
  parts.Truncate(kept);
}

}  // namespace uroce::memory
