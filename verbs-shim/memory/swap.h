// SPDX-License-Identifier: Apache-2.0
// Replaces private pages by pages of a memfd that the daemon maps too, and back, at the same
// addresses and without losing a write of any thread.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/write_protection.h"

namespace uroce::memory {

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

}  // namespace uroce::memory
