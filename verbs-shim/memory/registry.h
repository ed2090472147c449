// SPDX-License-Identifier: Apache-2.0
// The state of the process's registrations, its lock, and an approximate set of the remapped pages
// for callers that must not wait for the lock.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/daemon.h"
#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/plan.h"
#include "verbs-shim/memory/remap.h"
#include "verbs-shim/memory/segment_table.h"
#include "verbs-shim/memory/threads.h"

namespace uroce::memory {

// ---- An approximate set of the remapped pages ----

/// Counts remaps by address. One counter stands for 2 MB of addresses, and for others at multiples
/// of some 128 GB from them. Written under the lock of the registrations, read by any thread. Pages
/// that mremap has moved are not counted at their new address.
class RemappedPlaces {
 public:
  void Add(AddressRange pages) { Change(pages, 1); }
  void Remove(AddressRange pages) { Change(pages, UINT32_MAX); }
  void Clear() {
    for (uint32_t& counter : counters_) counter = 0;
    total_ = 0;
  }

  bool MayMeet(AddressRange range) const {
    if (__atomic_load_n(&total_, __ATOMIC_RELAXED) == 0) return false;
    const uint64_t last = LastOf(range);
    for (uint64_t place = First(range); place <= last; ++place) {
      if (__atomic_load_n(&counters_[place % kPlaces], __ATOMIC_RELAXED) != 0) return true;
    }
    return false;
  }

 private:
  static constexpr uint64_t kPlaceBytes = 2 << 20;
  static constexpr uint64_t kPlaces = 1 << 16;

  static uint64_t First(AddressRange range) { return range.start / kPlaceBytes; }
  /// No range needs more than one pass over all counters.
  static uint64_t LastOf(AddressRange range) {
    const uint64_t last = (range.end - 1) / kPlaceBytes;
    const uint64_t most = First(range) + kPlaces - 1;
    return last < most ? last : most;
  }

  void Change(AddressRange pages, uint32_t by) {
    const uint64_t last = LastOf(pages);
    for (uint64_t place = First(pages); place <= last; ++place) {
      __atomic_fetch_add(&counters_[place % kPlaces], by, __ATOMIC_RELAXED);
    }
    __atomic_fetch_add(&total_, by, __ATOMIC_RELAXED);
  }

  uint32_t counters_[kPlaces] = {};
  uint32_t total_ = 0;
};

// ---- The registrations, and their lock, which also delays forks ----

/// One per process. All members are used under the lock.
struct Registry {
  SegmentTable segments;
  RemappedPlaces&
      places;          // a separate object, so that its zeros take no room in the library's file
  uint32_t epoch = 0;  // how many forks lie between this process and the first one

  bool has_policy = false;
  MrPolicy policy = MrPolicy::kAutomatic;
  FaultSupport support;
  MapBudget map_budget;
  enum class Writers : uint8_t { kUnknown, kCanWait, kCannotWait };
  Writers writers = Writers::kUnknown;      // of this registration, where a handler makes them wait
  const void* support_session = nullptr;    // whose userfaultfd device `support` names
  const void* memory_fd_session = nullptr;  // the connection that has this program's /proc/self/mem
  const void* stage_session = nullptr;      // the connection that has a stage

  CopyThreads* copy_threads = nullptr;  // of the thread that holds the registry

  uint32_t retained = 0;        // at least as many as segments without references are kept
  uint32_t retained_limit = 0;  // with so many the shim looks which of them may go

  // Scratch space of one return of pages.
  MappedArray<Vma> returned;
  MappedArray<AddressRange> references;
  MappedArray<AddressRange> unreferenced;

  // Scratch space of one registration; kept to save system calls.
  MappedArray<Vma> mappings;  // `parts` point into it
  MappedArray<ThreadRecord> threads;
  MappedArray<uint64_t> futexes;  // words that other threads sleep on
  MappedArray<AddressRange> untouchable;
  MappedArray<uint64_t> stack_pointers;  // of other threads, where `writers` is known
  MappedArray<LiveSegment> live;
  MappedArray<RegionPart> parts;
  MappedArray<uroce_mr_segment> list;  // of `parts`, for the daemon

  /// Prepares what stays the same for all registrations of one connection.
  void Prepare(const Daemon& daemon, MrPolicy (*default_policy)(), bool (*takes_userfaultfd)());

  void ClearFacts();
  /// Whether this is the only thread, as far as the last ListThreads() knows. Threads of this
  /// library pause then until the registry is free.
  bool IsAlone() const;
  /// For a remap of `pages`, after ListThreads().
  OtherThreads OthersForRemap(AddressRange pages);
  /// Why writers to `pages` could not be made to wait; NONE if they can. May look at all threads.
  uroce_mr_reason WhyNotWait(AddressRange pages);

  /// Whether RemapPages() sees which private pages are pinned.
  bool SeesPins() const {
    return support.moves_pages && (support.kernel_mode || IsAlone()) && policy != MrPolicy::kMapped;
  }
  /// Whether pages of the program may be pinned, as far as its open files tell: none is replaced by
  /// another then, unless RemapPages() sees that it is free.
  bool MustStay() const;

  /// Ends a reference. Pages that no other reference covers become private to the program again.
  /// With the last reference the daemon releases the segment.
  void DropReference(const Daemon& daemon, uint32_t reference);
  /// Ends a segment without references.
  void EndSegment(const Daemon& daemon, uint32_t segment);

 private:
  /// Keeps a segment whose pages may be pinned: they must stay where they are.
  void Retain(const Daemon& daemon, uint32_t segment);
  /// Ends retained segments that the program has unmapped, or whose pages are pinned no more.
  void ReleaseRetained(const Daemon& daemon);
  /// The daemon releases the segment. With `gives_back` its pages become private again.
  void Release(const Daemon& daemon, uint32_t segment, bool gives_back);
  void GiveBackUnreferenced(const Daemon& daemon, const PageReference& dropped);
  const FaultSupport* SupportForReturns() const;
  /// For a return of `pages`.
  OtherThreads OthersForReturn(AddressRange pages);
  bool CanWait();
  bool CanGiveBack();
};

/// Whether a page of `range` may be a segment's, used or not. Any thread; needs no lock.
bool MayBeRemapped(AddressRange range);

/// Holds the registry for a scope. The thread cannot be cancelled in it: it would keep the lock.
class RegistryLock {
 public:
  RegistryLock();
  ~RegistryLock();
  RegistryLock(const RegistryLock&) = delete;
  RegistryLock& operator=(const RegistryLock&) = delete;
  Registry* operator->() const;
  Registry& operator*() const;

 private:
  int cancel_state_;
};

/// Holds the registry for a scope. For callers that may hold locks which a fork takes before or
/// after ours, or that may have interrupted the holder: waits neither for a fork nor for its own
/// thread.
class RegistryVisit {
 public:
  RegistryVisit();
  ~RegistryVisit();
  RegistryVisit(const RegistryVisit&) = delete;
  RegistryVisit& operator=(const RegistryVisit&) = delete;
  bool is_inside() const { return is_inside_; }
  /// This thread has the registry already.
  bool is_own() const { return is_own_; }
  Registry* operator->() const;
  Registry& operator*() const;

 private:
  bool is_own_ = false;
  bool is_inside_ = false;
};

}  // namespace uroce::memory
