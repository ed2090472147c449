// SPDX-License-Identifier: Apache-2.0
// Makes memory private to the program again, when no region uses it any more.
#pragma once

#include <span>

#include "verbs-shim/memory/mapped_array.h"
#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/segment_table.h"
#include "verbs-shim/memory/swap.h"

namespace uroce::memory {

/// Whatever the program still has of the segment `extent`, wherever it has moved it, becomes
/// private memory of the same contents; `swapped.kept` comes back, or goes. Writers wait meanwhile;
/// without `support` there are none. False: some of it stays the segment's, with nothing lost: the
/// kernel has no memory, or the program a userfaultfd of its own there. `mappings` is scratch
/// space.
[[nodiscard]] bool GiveBack(const FaultSupport* support, const SegmentExtent& extent,
                            SwappedMemory& swapped, MappedArray<Vma>& mappings);

/// The same for some pages of a segment that goes on: `pages` of its file, in rising offsets. These
/// take no memory in the file afterwards, if none of them stays.
void GiveBackPages(const FaultSupport* support, const SegmentExtent& extent, SwappedMemory& swapped,
                   std::span<const AddressRange> pages, MappedArray<Vma>& mappings);

}  // namespace uroce::memory
