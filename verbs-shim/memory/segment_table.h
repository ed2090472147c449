// SPDX-License-Identifier: Apache-2.0
// The segments that the daemon maps, and how many regions use each.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/daemon.h"
#include "verbs-shim/memory/mapped_array.h"
#include "verbs-shim/memory/plan.h"

namespace uroce::memory {

/// One per process, of static storage. Used under the lock of the registrations.
/// A segment is known by device and inode of its file, which /proc/self/maps shows wherever the
/// program may have moved its pages; where they were at first does not matter.
class SegmentTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// Adds a segment with one reference. kNone: no memory.
  uint32_t Add(const void* session, const SegmentExtent& extent, uroce_mr_mode mode,
               uint32_t handle);

  void AddReference(uint32_t index) { entries_[index].references += 1; }
  /// Drops a reference; the last one tells the daemon to let go of the memory.
  void DropReference(const Daemon& daemon, uint32_t index);

  /// Takes back an Add(), without a word to the daemon.
  void Remove(uint32_t index);

  uint32_t handle(uint32_t index) const { return entries_[index].handle; }
  uroce_mr_mode mode(uint32_t index) const { return entries_[index].mode; }
  /// Where the segment starts in its file.
  uint64_t file_offset(uint32_t index) const { return entries_[index].extent.offset; }

  /// Appends all live segments of a session. False: no memory.
  [[nodiscard]] bool ListLive(const void* session, MappedArray<LiveSegment>& live) const;

  /// True once any page of this process may be a segment's, used or not.
  bool ever_used() const { return !entries_.empty(); }

  /// In a fork child, which has none.
  void Forget() {
    entries_.Clear();
    first_free_ = kNone;
  }

 private:
  struct Entry {
    const void* session;
    SegmentExtent extent;
    uroce_mr_mode mode;
    uint32_t handle;
    uint32_t references;  // 0: the entry is free
    uint32_t next_free;
  };

  MappedArray<Entry> entries_;
  uint32_t first_free_ = kNone;
};

}  // namespace uroce::memory
