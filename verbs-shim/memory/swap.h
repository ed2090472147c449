// SPDX-License-Identifier: Apache-2.0
// Exchanges private pages and pages of a memfd that the daemon maps too, at the same addresses and
// without losing a write of any thread.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/write_protection.h"

namespace uroce::memory {

struct SwapRequest {
  AddressRange pages;
  int protection;  // PROT_* of the new mapping
  int memfd;       // its bytes from 0 on become the pages
  bool keep;       // the pages are one mapping of private memory, which is to be kept
};

/// The pages are write-protected, copied, and the memfd is mapped over them. A thread that writes
/// meanwhile waits in the fault; afterwards it repeats its write, on the new mapping. The caller's
/// stack and control block are never in `pages`.
///
/// With `keep` the private mapping is not unmapped but moved elsewhere, without its pages: with all
/// that the program said about it (madvise, mlock, names) it comes back when the pages are private
/// again, and becomes one with the mappings beside it that it was cut out of. `kept` is where it
/// lies, or 0: older kernels, and processes with little address space, keep nothing.
///
/// 0, or an errno: then nothing has changed. Direct I/O that was under way into the pages before is
/// not held back, as with any memory whose pages move.
[[nodiscard]] int SwapPages(const FaultSupport& support, const SwapRequest& request,
                            uint64_t& kept);

/// Makes the pages of `vma`, a mapping of a segment, private again: their contents go to the
/// private mapping at `kept`, which comes back in their place; 0: to a new one. An empty mapping
/// stays at `kept`, or `kept` becomes 0, where the kernel has no memory for one. Writers wait as
/// above; without `support` the caller knows that there are none. 0, or an errno: then the pages
/// are the segment's as before.
[[nodiscard]] int SwapBack(const FaultSupport* support, const Vma& vma, uint64_t& kept);

}  // namespace uroce::memory
