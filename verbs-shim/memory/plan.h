// SPDX-License-Identifier: Apache-2.0
// Decides how the daemon reaches each part of a memory region. Pure: works on values alone.
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/shm/abi/uroce_commands.h"
#include "verbs-shim/memory/mapped_array.h"
#include "verbs-shim/memory/maps.h"

namespace uroce::memory {

/// The values of UROCE_MR.
enum class MrPolicy : uint8_t { kAutomatic, kMapped, kCopied };

/// A region is remapped in pieces of about so many bytes: each becomes a segment, whose file uses
/// no memory once its pages are private again. So a deregistration needs memory for one piece
/// besides. A longer region than so many pieces has longer ones.
inline constexpr uint64_t kPieceBytes = 16 << 20;
inline constexpr uint64_t kMostPieces = 64;

/// How the daemon reaches one part of a region.
enum class PartKind : uint8_t {
  kCopied,  // accessed through /proc/self/mem
  kRemap,   // private pages, to be replaced by a new segment
  kShare,   // pages of a shared file, to be lent to the daemon
  kLive,    // pages that already are a segment the daemon maps
  kStaged,  // memory of a device, which only the program's own driver reaches
};

struct RegionPart {
  uint64_t addr;    // in the application
  uint64_t length;  // bytes of the region in this part
  PartKind kind;
  uroce_mr_reason reason;  // kCopied: the reason
  int protection;          // kRemap: PROT_* of the pages
  AddressRange pages;      // kRemap: the pages that are replaced; they hold [addr, addr + length)
  const Vma* vma;          // kRemap, kShare: the mapping, or the first of several
  uint32_t segment;        // kLive: its index in the table of segments
  uint64_t file_offset;    // kShare, kLive: where addr lies in the file
};

/// A segment that the daemon maps: bytes [offset, offset + length) of a file.
struct SegmentExtent {
  uint64_t device;
  uint64_t inode;
  uint64_t offset;
  uint64_t length;
  bool writable;

  constexpr bool Holds(uint64_t from, uint64_t bytes) const {
    return from >= offset && from - offset <= length && bytes <= length - (from - offset);
  }
};
struct LiveSegment {
  SegmentExtent extent;
  uint32_t index;  // in the table of segments
};

struct PlanRequest {
  AddressRange region;
  bool needs_write;  // some access flag lets the daemon write
  MrPolicy policy;
  bool knows_threads;        // stacks are known; if false, no private memory is remapped
  bool whole_partial_pages;  // pages that the region covers in part may be remapped whole: then
                             // threads that write to the rest wait, and get no EFAULT
  uint32_t max_parts;
};

/// The input of the decision. `mappings` are those of PlanWindow(), in rising addresses;
/// `untouchable` are stacks and thread control blocks, page aligned.
struct PlanFacts {
  std::span<const Vma> mappings;
  std::span<const AddressRange> untouchable;
  std::span<const LiveSegment> live;
};

/// The range whose mappings Plan() needs for `region`: the region itself and, if it covers pages in
/// part, the range that an arena of glibc may reach. Mappings behind a gap do not matter.
AddressRange PlanWindow(AddressRange region);

/// Splits `request.region` into parts, in rising addresses and without gaps.
/// Errors: EFAULT where memory is missing or does not allow the access, ENOMEM.
///
/// Never remapped: stacks and thread-local storage (after a fork, parent and child would run on one
/// remapped stack); memory that is not private, anonymous and writable; and pages covered only in
/// part that lie in the brk heap or in a glibc arena, because glibc's own fork writes there, in the
/// child, before any handler runs. When in doubt, a part is copied. Shared memory is lent without a
/// remap. After `max_parts` - 1 parts the remaining range is copied. No piece of a long part to be
/// remapped is shorter than half of kPieceBytes, and none divides a huge page.
[[nodiscard]] int Plan(const PlanRequest& request, const PlanFacts& facts,
                       MappedArray<RegionPart>& parts);

/// Makes `part` a copied part, whatever its kind was.
void MakeCopied(RegionPart& part, uroce_mr_reason reason);
/// Makes `part` a part of the live segment `index`.
void MakeLive(RegionPart& part, uint32_t index, uint64_t file_offset);

/// Joins neighbouring parts that one part can describe.
void JoinParts(MappedArray<RegionPart>& parts);

}  // namespace uroce::memory
