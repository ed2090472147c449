// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/registry.h"

#include <pthread.h>

#include <ctime>

#include "verbs-shim/memory/give_back.h"
#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/own_threads.h"
#include "verbs-shim/memory/pins.h"
#include "verbs-shim/memory/process_files.h"
#include "verbs-shim/memory/remap.h"
#include "verbs-shim/memory/segment_table.h"
#include "verbs-shim/memory/system_call.h"
#include "verbs-shim/memory/threads.h"
#include "verbs-shim/memory/write_protection.h"

namespace uroce::memory {
namespace {

// More than the kernel puts on a stack for a signal handler, with all registers of AVX-512 and AMX.
constexpr uint64_t kFrameBytes = 16 << 10;
constexpr int64_t kLockWaitNs = 5'000'000, kSecondNs = 1'000'000'000;
constexpr uint32_t kFewRetained = 64;

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_t owner = 0;      // of `mutex`; each thread only compares it with itself
bool is_forking = false;  // a thread is about to fork, or just has forked
constinit RemappedPlaces remapped_places;
constinit Registry registry{.places = remapped_places};
constinit ForkCopy fork_copy;

void Lock() {
  pthread_mutex_lock(&mutex);
  __atomic_store_n(&owner, pthread_self(), __ATOMIC_RELAXED);
}

/// Waits up to some milliseconds.
bool TryLock() {
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += kLockWaitNs;
  if (until.tv_nsec >= kSecondNs) {
    until.tv_nsec -= kSecondNs;
    until.tv_sec += 1;
  }
  return pthread_mutex_timedlock(&mutex, &until) == 0;
}

void Unlock() {
  g_own_threads.Resume();
  __atomic_store_n(&owner, pthread_t{0}, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&mutex);
}

void BeforeFork() {
  __atomic_store_n(&is_forking, true, __ATOMIC_RELAXED);
  Lock();
  if (registry.segments.ever_used()) fork_copy.Take(registry.segments, registry.mappings);
}

void InParent() {
  fork_copy.Discard();
  __atomic_store_n(&is_forking, false, __ATOMIC_RELAXED);
  Unlock();
}

/// In a fork child, the objects of the parent's connection are dead; the memory is the child's own.
void InChild() {
  fork_copy.Install();
  ForgetProcessFiles();
  ForgetUserfault();
  registry.segments.Forget();
  registry.retained = 0;
  registry.places.Clear();
  registry.epoch += 1;
  registry.support_session = nullptr;
  registry.memory_fd_session = nullptr;
  registry.stage_session = nullptr;
  g_own_threads.Forget();
  owner = 0;
  is_forking = false;
  mutex = PTHREAD_MUTEX_INITIALIZER;
}

// Registered as early as possible: so it runs last before a fork and first after it, and no other
// handler writes to memory that is copied already, or to the parent's.
[[gnu::constructor(101)]] void WatchForks() { (void)pthread_atfork(BeforeFork, InParent, InChild); }

}  // namespace

void Registry::Prepare(const Daemon& daemon, MrPolicy (*default_policy)(),
                       bool (*takes_userfaultfd)()) {
  if (!has_policy) policy = default_policy();
  has_policy = true;
  if (support_session == daemon.connection) return;
  support = takes_userfaultfd() ? ProbeFaultSupport(daemon.userfaultfd_device) : FaultSupport{};
  support_session = daemon.connection;
}

void Registry::ClearFacts() {
  mappings.Clear();
  threads.Clear();
  untouchable.Clear();
  stack_pointers.Clear();
  writers = Writers::kUnknown;
  live.Clear();
  parts.Clear();
}

bool Registry::IsAlone() const {
  const size_t own = g_own_threads.count();
  return threads.size() == 1 || (threads.size() == own + 1 && g_own_threads.Pause());
}

OtherThreads Registry::OthersForRemap(AddressRange pages) {
  futexes.Clear();
  if (!IsAlone()) (void)FindFutexes(threads.span(), pages, futexes);
  const bool is_signal = support.origin == FaultSupport::Origin::kSignal;
  return {.support = is_signal && IsAlone() ? nullptr : &support,
          .futexes = futexes.span(),
          .copy_threads = copy_threads};
}

OtherThreads Registry::OthersForReturn(AddressRange pages) {
  futexes.Clear();
  if (ListThreads(threads) == 0) (void)FindFutexes(threads.span(), pages, futexes);
  return {.support = SupportForReturns(), .futexes = futexes.span(), .copy_threads = copy_threads};
}

uroce_mr_reason Registry::WhyNotWait(AddressRange pages) {
  if (support.origin != FaultSupport::Origin::kSignal || IsAlone()) return UROCE_WHY_NONE;
  if (writers == Writers::kUnknown) {
    writers = CanAllWait(threads.span(), stack_pointers) ? Writers::kCanWait : Writers::kCannotWait;
  }
  if (writers == Writers::kCannotWait || !PrepareWriteWindows()) return UROCE_WHY_NO_USERFAULTFD;
  for (const uint64_t stack_pointer : stack_pointers) {
    // What lies right below is written to as well.
    if (pages.Meets({stack_pointer - kFrameBytes, stack_pointer + 1})) return UROCE_WHY_STACK;
  }
  return UROCE_WHY_NONE;
}

bool Registry::MustStay() const { return policy != MrPolicy::kMapped && MayHavePins(); }

void Registry::DropReference(const Daemon& daemon, uint32_t reference) {
  const PageReference dropped = segments.DropReference(reference);
  if (segments.IsReferenced(dropped.segment)) {
    GiveBackUnreferenced(daemon, dropped);
  } else {
    EndSegment(daemon, dropped.segment);
  }
}

void Registry::EndSegment(const Daemon& daemon, uint32_t segment) {
  const bool is_remap = segments.mode(segment) == UROCE_MR_MAPPED;
  if (is_remap && MustStay()) return Retain(daemon, segment);
  Release(daemon, segment, is_remap && CanWait());
}

// An error of the daemon means that the connection has ended, and its segments with it.
void Registry::Release(const Daemon& daemon, uint32_t segment, bool gives_back) {
  (void)daemon.destroy_segment(daemon.connection, segments.handle(segment));
  const SegmentExtent& extent = segments.extent(segment);
  RemappedMemory& remapped = segments.remapped(segment);
  if (gives_back) {
    const OtherThreads others = OthersForReturn(remapped.pages);
    if (GiveBack(others, extent, remapped, returned)) places.Remove(remapped.pages);
  } else if (remapped.kept != 0) {
    SystemCall(SYS_munmap, remapped.kept, extent.length);
  }
  segments.Remove(segment);
}

void Registry::Retain(const Daemon& daemon, uint32_t segment) {
  segments.Retain(segment);
  if (++retained < retained_limit) return;
  ReleaseRetained(daemon);
  retained_limit = 2 * retained + kFewRetained;
}

void Registry::ReleaseRetained(const Daemon& daemon) {
  const bool gives_back = CanGiveBack();
  retained = 0;
  for (uint32_t segment = 0; segment < segments.end_index(); ++segment) {
    if (!segments.IsRetained(segment) || segments.connection(segment) != daemon.connection)
      continue;
    if (gives_back || !IsMapped(segments.extent(segment), segments.remapped(segment), returned)) {
      Release(daemon, segment, gives_back);
    } else {
      ++retained;
    }
  }
}

void Registry::GiveBackUnreferenced(const Daemon& daemon, const PageReference& dropped) {
  if (segments.mode(dropped.segment) != UROCE_MR_MAPPED) return;
  unreferenced.Clear();
  if (!segments.ListUnreferenced(dropped, references, unreferenced)) return;
  if (unreferenced.empty() || !CanGiveBack()) return;
  const uint32_t handle = segments.handle(dropped.segment);
  for (const AddressRange& pages : unreferenced) {
    (void)daemon.trim_segment(daemon.connection, {.segment = handle,
                                                  .reserved = 0,
                                                  .offset = pages.start,
                                                  .length = pages.end - pages.start});
  }
  RemappedMemory& remapped = segments.remapped(dropped.segment);
  GiveBackPages(OthersForReturn(remapped.pages), segments.extent(dropped.segment), remapped,
                unreferenced.span(), returned);
}

const FaultSupport* Registry::SupportForReturns() const {
  return support.kernel_mode && support.protects_shared ? &support : nullptr;
}

/// Whether writers to pages of segments can be made to wait, or there are none. Without a
/// userfaultfd that also stops the kernel, a system call of another thread would fail with EFAULT:
/// the memory then stays a segment's, unless there is no other thread.
bool Registry::CanWait() {
  if (SupportForReturns() != nullptr) return true;
  return ListThreads(threads) == 0 && IsAlone();
}

bool Registry::CanGiveBack() { return !MustStay() && CanWait(); }

RegistryLock::RegistryLock() {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  Lock();
}

RegistryLock::~RegistryLock() {
  Unlock();
  pthread_setcancelstate(cancel_state_, nullptr);
}

Registry* RegistryLock::operator->() const { return &registry; }
Registry& RegistryLock::operator*() const { return registry; }

RegistryVisit::RegistryVisit() {
  is_own_ = __atomic_load_n(&owner, __ATOMIC_RELAXED) == pthread_self();
  if (is_own_) return;
  while (!TryLock()) {
    if (__atomic_load_n(&is_forking, __ATOMIC_RELAXED)) return;
  }
  __atomic_store_n(&owner, pthread_self(), __ATOMIC_RELAXED);
  is_inside_ = true;
}

RegistryVisit::~RegistryVisit() {
  if (is_inside_) Unlock();
}

Registry* RegistryVisit::operator->() const { return &registry; }
Registry& RegistryVisit::operator*() const { return registry; }

bool MayBeRemapped(AddressRange range) { return registry.places.MayMeet(range); }

}  // namespace uroce::memory
