// SPDX-License-Identifier: Apache-2.0
// Replaces private pages by pages of a memfd that the daemon maps too, and back, at the same
// addresses and without losing a write of any thread; makes pages private again that no region
// uses.
#pragma once

#include <cstdint>
#include <span>

#include "verbs-shim/memory/mapped_array.h"
#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/segment_table.h"
#include "verbs-shim/memory/write_protection.h"

namespace uroce::memory {

// ---- Copying without libc ----

/// Not memcpy: under a sanitizer the program has its own memcpy, which rejects freed memory.
inline void CopyBytes(uint64_t to, uint64_t from, uint64_t length) {
#if defined(__x86_64__)
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
#else
  const auto move = [&]<typename Word>(Word) {
    for (; length >= sizeof(Word); length -= sizeof(Word)) {
      *reinterpret_cast<volatile Word*>(to) = *reinterpret_cast<const volatile Word*>(from);
      to += sizeof(Word);
      from += sizeof(Word);
    }
  };
  move(uint64_t{});
  move(uint8_t{});
#endif
}

inline bool IsZeroPage(uint64_t page) {
  const auto* words = reinterpret_cast<const uint64_t*>(page);
  constexpr uint64_t kWords = kPageBytes / sizeof(uint64_t);
  for (uint64_t i = 0; i < kWords; i += 8) {
    uint64_t any = 0;
    for (uint64_t j = 0; j < 8; ++j) any |= words[i + j];
    if (any != 0) return false;
  }
  return true;
}

/// Copies whole pages to memory that was never touched. Pages of zeros are skipped, and use no
/// memory.
inline void CopyUsedPages(uint64_t to, uint64_t from, uint64_t length) {
  for (uint64_t at = 0; at < length; at += kPageBytes) {
    if (!IsZeroPage(from + at)) CopyBytes(to + at, from + at, kPageBytes);
  }
}

// ---- Swapping pages ----

struct SwapRequest {
  AddressRange pages;
  int protection;  // PROT_* of the new mapping
  int memfd;       // its bytes from 0 on become the contents of the pages
  bool keep;       // the pages are one private mapping, which is to be kept
};

/// Write-protects the pages, copies them, and maps the memfd over them. A thread that writes
/// meanwhile waits in the page fault or a signal handler, and then repeats its write on the new
/// mapping. With a null `support` the caller knows that there is no other thread. The caller's
/// stack and control block are never in `pages`.
///
/// With `keep` the private mapping is not unmapped but moved elsewhere, without its pages. It is
/// mapped back when the pages become private again, with all its properties (madvise, mlock,
/// names), and merges with the neighbouring mappings that it was cut out of. `kept` is its address,
/// or 0: on older kernels, and in processes with little address space, nothing is kept.
///
/// Returns 0, or an errno: then nothing has changed. Direct I/O into the pages that began before is
/// not delayed, as with any memory whose pages move.
[[nodiscard]] int SwapPages(const FaultSupport* support, const SwapRequest& request,
                            uint64_t& kept);

/// Makes the pages of `vma`, a mapping of a segment, private again. Their contents go to the
/// private mapping at `kept`, which is mapped back in their place, or to a new mapping when `kept`
/// is 0. An empty mapping stays at `kept`; where the kernel has no memory for one, `kept` becomes
/// 0. Writers wait as above; with a null `support` the caller knows that there are none. Returns 0,
/// or an errno: then the pages are the segment's as before.
[[nodiscard]] int SwapBack(const FaultSupport* support, const Vma& vma, uint64_t& kept);

// ---- Giving memory back that no region uses ----

/// Makes all that the program still has mapped of the segment `extent`, at any address, private
/// memory of the same contents. `swapped.kept` is mapped back, or unmapped. Writers wait meanwhile;
/// when `support` is null there are none. False: some of it stays the segment's, and nothing is
/// lost: the kernel has no memory, or the program has its own userfaultfd there. `mappings` is
/// scratch space.
[[nodiscard]] bool GiveBack(const FaultSupport* support, const SegmentExtent& extent,
                            SwappedMemory& swapped, MappedArray<Vma>& mappings);

/// Does the same for some pages of a segment that stays: `pages` of its file, in rising offsets.
/// These pages use no memory in the file afterwards, if none of them stays the segment's.
void GiveBackPages(const FaultSupport* support, const SegmentExtent& extent, SwappedMemory& swapped,
                   std::span<const AddressRange> pages, MappedArray<Vma>& mappings);

}  // namespace uroce::memory
