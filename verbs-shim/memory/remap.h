// SPDX-License-Identifier: Apache-2.0
// Replaces private pages by pages of a memfd that the daemon maps too, and back, at the same
// addresses and without losing a write of any thread.
#pragma once

#include <cstdint>
#include <span>

#include "verbs-shim/memory/copy_threads.h"
#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/write_protection.h"

namespace uroce::memory {

/// The other threads of the process: those that may access the pages, and those that copy parts of
/// them.
struct OtherThreads {
  const FaultSupport* support;  // how writers are made to wait; null: there are no other threads
  std::span<const uint64_t>
      futexes;  // the words in the pages on which they sleep; see FindFutexes()
  CopyThreads* copy_threads = nullptr;  // null: the caller copies by itself
};

struct RemapRequest {
  AddressRange pages;
  int protection;    // PROT_* of the new mapping
  int memfd;         // its bytes from 0 on become the contents of the pages
  bool is_private;   // the pages are one private mapping; otherwise they are a segment's
  bool keep;         // the private mapping is to be kept
  bool checks_pins;  // refuses private pages that the kernel has pinned. Needs
                     // FaultSupport::moves_pages, and kernel_mode if there are other threads
};

/// What a remap leaves.
struct RemapResult {
  uint64_t kept;  // the address of the kept mapping; 0: nothing is kept
  bool stays;  // after an error: some pages could not be made private again, and are the memfd's.
               // Their contents are right.
};

/// Exchanges chunk by chunk: write-protects the pages, copies those that were ever touched, and
/// maps the memfd over them. A thread that writes meanwhile waits in the page fault or a signal
/// handler, and then repeats its write on the new mapping. With a null `support` the caller knows
/// that there is no other thread. The caller's stack and control block are never in `pages`. Pages
/// that were never touched are holes in the memfd. Needs memory for one chunk besides.
///
/// With `keep` the private mapping is not unmapped but moved elsewhere, without its pages. It is
/// mapped back when the pages become private again, with all its properties (madvise, mlock,
/// names), and merges with the neighbouring mappings that it was cut out of. On older kernels, and
/// in processes with little address space, nothing is kept.
///
/// Returns 0, or an errno, after which the pages are private as before, but for RemapResult::stays.
/// EBUSY with `checks_pins`: one of the pages is pinned. Without `checks_pins`, direct I/O into the
/// pages that began before is not delayed, as with any memory whose pages move.
[[nodiscard]] int RemapPages(const OtherThreads& others, const RemapRequest& request,
                             RemapResult& result);

/// Makes the pages of `vma`, a mapping of a segment, private again, chunk by chunk. Their contents
/// go to the private mapping at `kept`, which is mapped back in their place, or to a new mapping
/// when `kept` is 0. An empty mapping stays at `kept`; where the kernel has no memory for one,
/// `kept` becomes 0. Writers wait as above; with a null `support` the caller knows that there are
/// none. `memfd` (or a negative number) is the segment's file, which tells its holes. Returns 0, or
/// an errno: then the chunks that are left are the segment's as before.
[[nodiscard]] int RemapBack(const OtherThreads& others, const Vma& vma, int64_t memfd,
                            uint64_t& kept);

}  // namespace uroce::memory
