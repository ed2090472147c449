// SPDX-License-Identifier: Apache-2.0
// Private copies of shared pages for a fork child.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/mapped_array.h"
#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/segment_table.h"

namespace uroce::memory {

/// Gives a fork child its own copy of every page of a segment, used or not. Without it, the child
/// would share these pages with its parent and the daemon.
///
/// The parent makes the copy right before the fork, in memory of its own. The child moves that copy
/// over the pages before other code of the child runs, and needs no memory, lock or fd for that. So
/// the child sees what the forking thread saw. Writes of other threads or the daemon during the
/// copy may be in it or not: in a program with threads, fork takes no snapshot of what other
/// threads do. Write protection against them would deadlock: a thread stopped in a write may hold
/// the heap's lock, which fork takes next.
///
/// Where a private mapping was kept, the copy is made in the kept mapping, so that the advice that
/// the program gave by madvise also holds in the child.
///
/// Where the parent has no memory for a copy, the child gets pages without access, much like memory
/// under MADV_DONTFORK, which would be missing; the parent is not affected.
///
/// A child made by vfork or posix_spawn shares all memory anyway; one made by _Fork or clone runs
/// no handler and shares the segments with its parent.
class ForkCopy {
 public:
  /// Called in the parent, before the fork. `mappings` is scratch space.
  void Take(const SegmentTable& segments, MappedArray<Vma>& mappings);
  /// Called in the parent, after the fork.
  void Discard();
  /// Called in the child.
  void Install();

 private:
  struct Piece {
    uint64_t address;
    uint64_t length;
    uint64_t copy;  // 0: there is no copy
    int protection;
    bool is_kept;  // `copy` is a kept mapping
  };

  static Piece CopyOf(const Vma& vma);
  static Piece CopyToKept(const Vma& vma, uint64_t kept);

  MappedArray<Piece> pieces_;
};

}  // namespace uroce::memory
