// SPDX-License-Identifier: Apache-2.0
// The segments that the daemon maps, the pages of them that regions use, and their private copies
// for fork children.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/daemon.h"
#include "verbs-shim/memory/mapped_array.h"
#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/plan.h"

namespace uroce::memory {

// ---- Segments and references ----

/// The memory that a segment replaced.
struct RemappedMemory {
  AddressRange pages;       // their place at that time; {0, 0}: the program's own file
  uint64_t kept;            // the private mapping, which will be mapped back; or 0
  uint64_t returned_bytes;  // bytes of `pages` that are private to the program again
  int64_t memfd = -1;       // the segment's file, which the shim has open; negative: it has not
};

/// Long segments with holes keep their file open, which tells where the holes are: to read one
/// makes its page. Others would cost a program too many fds.
inline constexpr uint64_t kHeldFileBytes = 8 << 20;
inline constexpr uint32_t kMostHeldFiles = 64;
/// The file that is open for the segment. Negative: none, or the program has closed its number.
int64_t HeldFile(const SegmentExtent& extent, const RemappedMemory& remapped);

/// The references of a region, as indices.
class SegmentReferences {
 public:
  /// False: no memory.
  [[nodiscard]] bool Append(uint32_t index) {
    if (count_ == kFew) return more_.Append(index);
    few_[count_++] = index;
    return true;
  }
  /// Calls `visit(index)` for each reference, and forgets them all.
  template <typename Visit>
  void TakeAll(Visit&& visit) {
    for (uint32_t i = 0; i < count_; ++i) visit(few_[i]);
    for (const uint32_t index : more_) visit(index);
    count_ = 0;
    more_.Release();
  }

 private:
  static constexpr uint32_t kFew = 8;

  uint32_t count_ = 0;
  uint32_t few_[kFew] = {};
  MappedArray<uint32_t> more_;
};

/// Pages of a segment's file that a region can access.
struct PageReference {
  uint32_t segment;    // its index
  AddressRange pages;  // of the file
};

/// One per process, of static storage. Used under the lock of the registrations. A segment is
/// identified by device and inode of its file, which /proc/self/maps shows even after the program
/// has moved its pages; their first place does not matter.
class SegmentTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;  // equal to MappedSlots's

  /// Adds a segment; the caller adds a reference next. kNone: no memory.
  uint32_t Add(const void* connection, const SegmentExtent& extent, uroce_mr_mode mode,
               uint32_t handle);
  /// Records that `memory` was remapped for the segment, once.
  void NoteRemap(uint32_t index, const RemappedMemory& memory) {
    entries_[index].remapped = memory;
    if (memory.memfd >= 0) ++held_files_;
  }
  /// Whether a further segment may keep its file open.
  bool MayHoldFile() const { return held_files_ < kMostHeldFiles; }

  /// The address of the kept mapping of `range`, a part of `vma`; 0: not all of it was kept.
  uint64_t KeptFor(const Vma& vma, AddressRange range) const;
  /// The file of `vma`, a mapping of a segment, if it is held; or a negative number.
  int64_t FileOf(const Vma& vma) const;
  /// The same for all of `vma`, if it lies where it was remapped: only one mapping can lie there.
  uint64_t KeptInPlace(const Vma& vma) const;

  /// Records that a region uses `reference`. Returns its index; kNone: no memory.
  [[nodiscard]] uint32_t AddReference(const PageReference& reference);
  /// Removes a reference, and returns its value.
  PageReference DropReference(uint32_t reference);
  /// False: the caller calls Remove() or Retain() next.
  bool IsReferenced(uint32_t index) const { return entries_[index].first_reference != kNone; }
  /// Keeps a segment without references, for regions to come.
  void Retain(uint32_t index) { entries_[index].is_retained = true; }
  /// Whether Retain() was called last, and no reference came since.
  bool IsRetained(uint32_t index) const { return entries_[index].is_retained; }
  const void* connection(uint32_t index) const { return entries_[index].connection; }
  /// One more than the greatest index ever used.
  uint32_t end_index() const { return entries_.end_index(); }
  /// Appends the pages of `of` that no reference covers, in rising offsets. `references` is scratch
  /// space. False: no memory.
  [[nodiscard]] bool ListUnreferenced(const PageReference& of,
                                      MappedArray<AddressRange>& references,
                                      MappedArray<AddressRange>& pages) const;
  /// Also closes its file.
  void Remove(uint32_t index);

  uint32_t handle(uint32_t index) const { return entries_[index].handle; }
  uroce_mr_mode mode(uint32_t index) const { return entries_[index].mode; }
  const SegmentExtent& extent(uint32_t index) const { return entries_[index].extent; }
  RemappedMemory& remapped(uint32_t index) { return entries_[index].remapped; }
  /// The offset of the segment in its file.
  uint64_t file_offset(uint32_t index) const { return entries_[index].extent.offset; }

  /// Appends all live segments of a connection. False: no memory.
  [[nodiscard]] bool ListLive(const void* connection, MappedArray<LiveSegment>& live) const;

  /// True once any page of this process may be a segment's, used or not.
  bool ever_used() const { return entries_.end_index() != 0; }

  /// Called in a fork child, which has no segments. Closes their files.
  void Forget();

 private:
  struct Entry;
  /// The entry of the segment that `vma` maps; or null.
  const Entry* Find(const Vma& vma) const;
  bool IsInUse(uint32_t index) const { return IsReferenced(index) || IsRetained(index); }

  struct Entry {
    const void* connection;
    SegmentExtent extent;
    uroce_mr_mode mode;
    RemappedMemory remapped;
    uint32_t handle;
    uint32_t first_reference;  // kNone: the entry is free
    uint32_t last_reference;
    bool is_retained;
  };
  /// One reference to a segment; a segment's references are listed in the order of their addition.
  struct Reference {
    PageReference what;
    uint32_t previous;
    uint32_t next;
  };

  MappedSlots<Entry> entries_;
  MappedSlots<Reference> references_;
  uint32_t held_files_ = 0;
};

// ---- Private copies of shared pages for a fork child ----

/// Gives a fork child its own copy of every page of a segment, used or not. Without it, the child
/// would share these pages with its parent and the daemon.
///
/// The parent makes the copy right before the fork, in its own memory. The child moves that copy
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

  static Piece CopyOf(const Vma& vma, int64_t file);
  static Piece CopyToKept(const Vma& vma, int64_t file, uint64_t kept);

  MappedArray<Piece> pieces_;
};

}  // namespace uroce::memory
