// SPDX-License-Identifier: Apache-2.0
// Makes memory of segments private again that no region uses, wherever the program has it mapped.
#pragma once

#include <span>

#include "verbs-shim/memory/mapped_array.h"
#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/remap.h"
#include "verbs-shim/memory/segment_table.h"

namespace uroce::memory {

/// Makes all that the program still has mapped of the segment `extent`, at any address, private
/// memory of the same contents. `remapped.kept` is mapped back, or unmapped. Other threads wait
/// meanwhile. False: some of it stays the segment's, and nothing is lost: the kernel has no memory,
/// or the program has its own userfaultfd there. `mappings` is scratch space. Needs memory for the
/// segment besides, until the shim and the daemon have closed and unmapped its file.
[[nodiscard]] bool GiveBack(const OtherThreads& others, const SegmentExtent& extent,
                            RemappedMemory& remapped, MappedArray<Vma>& mappings);

/// Does the same for some pages of a segment that stays: `pages` of its file, in rising offsets.
/// Where the kernel lets the program free pages of the file, these pages use no memory there
/// afterwards, if none of them stays the segment's. The kernel refuses it where the daemon made the
/// file immutable: then they use memory until the segment ends.
void GiveBackPages(const OtherThreads& others, const SegmentExtent& extent,
                   RemappedMemory& remapped, std::span<const AddressRange> pages,
                   MappedArray<Vma>& mappings);

/// Whether a part of the segment's mapping lies where it was remapped. True also where the kernel
/// does not tell. `mappings` is scratch space.
bool IsMapped(const SegmentExtent& extent, const RemappedMemory& remapped,
              MappedArray<Vma>& mappings);

}  // namespace uroce::memory
