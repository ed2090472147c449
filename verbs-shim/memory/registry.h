// SPDX-License-Identifier: Apache-2.0
// The state of this process's registrations, and its lock, which also holds off fork.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/daemon.h"
#include "verbs-shim/memory/map_budget.h"
#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/plan.h"
#include "verbs-shim/memory/segment_table.h"
#include "verbs-shim/memory/swap.h"
#include "verbs-shim/memory/threads.h"

namespace uroce::memory {

/// One per process. All under the lock.
struct Registry {
  SegmentTable segments;
  uint32_t epoch = 0;  // how many forks this process is away from the first

  bool has_policy = false;
  MrPolicy policy = MrPolicy::kAutomatic;
  FaultSupport support;
  MapBudget map_budget;
  const void* support_session = nullptr;    // whose userfaultfd device `support` names
  const void* memory_fd_session = nullptr;  // which has this program's /proc/self/mem

  // What one registration looks at; kept to save the system calls.
  MappedArray<Vma> mappings;
  MappedArray<ThreadRecord> threads;
  MappedArray<AddressRange> untouchable;
  MappedArray<LiveSegment> live;
  MappedArray<RegionPart> parts;

  /// Makes ready what does not change between registrations of one session.
  void Prepare(const Daemon& daemon, MrPolicy (*default_policy)());

  void ClearFacts();
};

/// Holds the registry for a scope, in which the thread cannot be cancelled: it would not let go.
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

}  // namespace uroce::memory
