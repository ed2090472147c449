// SPDX-License-Identifier: Apache-2.0
// The state of this process's registrations, and their lock, which also delays forks.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/daemon.h"
#include "verbs-shim/memory/map_budget.h"
#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/plan.h"
#include "verbs-shim/memory/segment_table.h"
#include "verbs-shim/memory/swap.h"
#include "verbs-shim/memory/swapped_places.h"
#include "verbs-shim/memory/threads.h"

namespace uroce::memory {

/// One per process. All members are used under the lock.
struct Registry {
  SegmentTable segments;
  SwappedPlaces& places;  // a separate object, so that its zeros take no room in the library's file
  uint32_t epoch = 0;     // how many forks lie between this process and the first one

  bool has_policy = false;
  MrPolicy policy = MrPolicy::kAutomatic;
  FaultSupport support;
  MapBudget map_budget;
  enum class Writers : uint8_t { kUnknown, kCanWait, kCannotWait };
  Writers writers = Writers::kUnknown;      // of this registration, where a handler makes them wait
  const void* support_session = nullptr;    // whose userfaultfd device `support` names
  const void* memory_fd_session = nullptr;  // the connection that has this program's /proc/self/mem

  // Scratch space of one return of pages.
  MappedArray<Vma> returned;
  MappedArray<AddressRange> references;
  MappedArray<AddressRange> unreferenced;

  // Scratch space of one registration; kept to save system calls.
  MappedArray<Vma> mappings;  // `parts` point into it
  MappedArray<ThreadRecord> threads;
  MappedArray<AddressRange> untouchable;
  MappedArray<uint64_t> stack_pointers;  // of other threads, where `writers` is known
  MappedArray<LiveSegment> live;
  MappedArray<RegionPart> parts;
  MappedArray<uroce_mr_segment> list;  // of `parts`, for the daemon

  /// Prepares what stays the same for all registrations of one connection.
  void Prepare(const Daemon& daemon, MrPolicy (*default_policy)(), bool (*takes_userfaultfd)());

  void ClearFacts();
  /// Whether this is the only thread, as far as the last ListThreads() knows.
  bool is_alone() const { return threads.size() == 1; }
  /// How writers are made to wait; null: there are none.
  const FaultSupport* SupportForSwap() const;
  /// Why writers to `pages` could not be made to wait; NONE if they can. May look at all threads.
  uroce_mr_reason WhyNotWait(AddressRange pages);

  /// Whether pages of the program may be pinned: none is replaced by another then.
  bool MustStay() const;

  /// Ends a reference. Pages that no other reference covers become private to the program again.
  /// With the last reference the daemon releases the segment.
  void DropReference(const Daemon& daemon, uint32_t reference);
  /// Ends a segment without references.
  void EndSegment(const Daemon& daemon, uint32_t segment);

 private:
  /// The segment's pages become private again if they may.
  void EndSwap(const SegmentExtent& extent, SwappedMemory& swapped);
  void GiveBackUnreferenced(const Daemon& daemon, const PageReference& dropped);
  const FaultSupport* SupportForReturns() const;
  bool CanGiveBack();
};

/// Whether a page of `range` may be a segment's, used or not. Any thread; needs no lock.
bool MayBeSwapped(AddressRange range);

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
