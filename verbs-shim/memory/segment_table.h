// SPDX-License-Identifier: Apache-2.0
// The segments that the daemon maps, and which of their pages regions use.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/daemon.h"
#include "verbs-shim/memory/mapped_array.h"
#include "verbs-shim/memory/mapped_slots.h"
#include "verbs-shim/memory/plan.h"

namespace uroce::memory {

/// What a segment took the place of.
struct SwappedMemory {
  AddressRange pages;       // where it was then; {0, 0}: the program's own file
  uint64_t kept;            // the private mapping, which comes back; or 0
  uint64_t returned_bytes;  // of `pages`: they are the program's alone again
};

/// The references of a region, by their indices.
class SegmentReferences {
 public:
  /// False: no memory.
  [[nodiscard]] bool Append(uint32_t index) {
    if (count_ == kFew) return more_.Append(index);
    few_[count_++] = index;
    return true;
  }
  /// Calls `visit(index)` for each, and forgets them.
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

/// Pages of a segment's file that a region reaches.
struct PageReference {
  uint32_t segment;    // its index
  AddressRange pages;  // of the file
};

/// One per process, of static storage. Used under the lock of the registrations.
/// A segment is known by device and inode of its file, which /proc/self/maps shows wherever the
/// program may have moved its pages; where they were at first does not matter.
class SegmentTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;  // also as MappedSlots has it

  /// Adds a segment, to which a reference comes next. kNone: no memory.
  uint32_t Add(const void* connection, const SegmentExtent& extent, uroce_mr_mode mode,
               uint32_t handle);
  /// Notes of a segment that `memory` was swapped for it.
  void NoteSwap(uint32_t index, const SwappedMemory& memory) { entries_[index].swapped = memory; }

  /// Where the kept mapping of `range`, a part of `vma`, lies; 0: none was kept of all of it.
  uint64_t KeptFor(const Vma& vma, AddressRange range) const;
  /// The same for all of `vma`, if it lies where it was swapped: only one mapping does.
  uint64_t KeptInPlace(const Vma& vma) const;

  /// Notes that a region reaches `reference`. Returns its index; kNone: no memory.
  [[nodiscard]] uint32_t AddReference(const PageReference& reference);
  /// Forgets it, and returns what it was.
  PageReference DropReference(uint32_t reference);
  /// False: Remove() is next.
  bool IsReferenced(uint32_t index) const { return entries_[index].first_reference != kNone; }
  /// Appends those pages of `of` that no reference has, in rising offsets. `references` is scratch
  /// space. False: no memory.
  [[nodiscard]] bool ListUnreferenced(const PageReference& of,
                                      MappedArray<AddressRange>& references,
                                      MappedArray<AddressRange>& pages) const;
  void Remove(uint32_t index) { entries_.Remove(index); }

  uint32_t handle(uint32_t index) const { return entries_[index].handle; }
  uroce_mr_mode mode(uint32_t index) const { return entries_[index].mode; }
  const SegmentExtent& extent(uint32_t index) const { return entries_[index].extent; }
  SwappedMemory& swapped(uint32_t index) { return entries_[index].swapped; }
  /// Where the segment starts in its file.
  uint64_t file_offset(uint32_t index) const { return entries_[index].extent.offset; }

  /// Appends all live segments of a connection. False: no memory.
  [[nodiscard]] bool ListLive(const void* connection, MappedArray<LiveSegment>& live) const;

  /// True once any page of this process may be a segment's, used or not.
  bool ever_used() const { return entries_.end_index() != 0; }

  /// In a fork child, which has none.
  void Forget() {
    entries_.Clear();
    references_.Clear();
  }

 private:
  struct Entry;
  /// The entry of the segment that `vma` shows, if a private mapping was kept for it; or null.
  const Entry* FindKept(const Vma& vma) const;

  struct Entry {
    const void* connection;
    SegmentExtent extent;
    uroce_mr_mode mode;
    SwappedMemory swapped;
    uint32_t handle;
    uint32_t first_reference;  // kNone: the entry is free
    uint32_t last_reference;
  };
  /// One of a segment's, in the order in which they were added.
  struct Reference {
    PageReference what;
    uint32_t previous;
    uint32_t next;
  };

  MappedSlots<Entry> entries_;
  MappedSlots<Reference> references_;
};

}  // namespace uroce::memory
