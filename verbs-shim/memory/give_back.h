// SPDX-License-Identifier: Apache-2.0
// Makes memory private to the program again, once no region uses it.
#pragma once

#include <span>

#include "verbs-shim/memory/mapped_array.h"
#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/segment_table.h"
#include "verbs-shim/memory/swap.h"

namespace uroce::memory {

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
