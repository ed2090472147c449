// SPDX-License-Identifier: Apache-2.0
// Private copies of shared pages for a fork child.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/mapped_array.h"
#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/segment_table.h"

namespace uroce::memory {

/// Gives a fork child its own copy of every page that is a segment's, used or not, which it would
/// otherwise share with its parent and the daemon.
///
/// The parent copies, right before the fork, to memory of its own; the child moves that copy over
/// the pages before anything else of it runs, and needs no memory, lock or fd for that. The child
/// so sees what the forking thread saw. What other threads or the daemon write while the copy is
/// made may be in it or not: to a program with threads, a fork is no snapshot of what its other
/// threads do. Holding these writers off by write protection would deadlock: a thread stopped in
/// such a write may hold the lock of the heap, which fork takes next.
///
/// The copy of memory whose private mapping was kept is made there, so that the child has, or
/// lacks, what the program said of it to madvise.
///
/// Where the parent has no memory for a copy, the child gets pages without access, as memory under
/// MADV_DONTFORK would be missing, and the parent stays unharmed.
///
/// A child made by vfork or posix_spawn shares all memory anyway; one made by _Fork or clone runs
/// no handler and shares the segments with its parent.
class ForkCopy {
 public:
  /// In the parent, before the fork. `mappings` is scratch space.
  void Take(const SegmentTable& segments, MappedArray<Vma>& mappings);
  /// In the parent, after the fork.
  void Discard();
  /// In the child.
  void Install();

 private:
  struct Piece {
    uint64_t address;
    uint64_t length;
    uint64_t copy;  // 0: there is none
    int protection;
    bool is_kept;  // `copy` is a kept mapping
  };

  static Piece CopyOf(const Vma& vma);
  static Piece CopyToKept(const Vma& vma, uint64_t kept);

  MappedArray<Piece> pieces_;
};

}  // namespace uroce::memory
