// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/memory.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "verbs-shim/memory/backing_file.h"
#include "verbs-shim/memory/pages.h"
#include "verbs-shim/memory/process_files.h"
#include "verbs-shim/memory/registry.h"
#include "verbs-shim/memory/remap.h"
#include "verbs-shim/memory/system_call.h"
#include "verbs-shim/memory/threads.h"

namespace uroce::memory {

// ---- Registration ----
// Examines the memory, plans, remaps pages for segments, and tells the daemon.

namespace {

constexpr uint32_t kWriteAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
constexpr uint32_t kKnownAccess = kWriteAccess | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED |
                                  IBV_ACCESS_HUGETLB | IBV_ACCESS_ON_DEMAND;
// Flags that Debian 12's headers lack.
constexpr uint32_t kFlushAccess = 1 << 8 | 1 << 9;  // IBV_ACCESS_FLUSH_GLOBAL, _PERSISTENT
constexpr uint32_t kOptionalAccess = IBV_ACCESS_OPTIONAL_RANGE;

int CheckAccess(uint32_t access) {
  const uint32_t needs_local_write = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if ((access & kFlushAccess) != 0) return EOPNOTSUPP;
  if ((access & ~(kKnownAccess | kOptionalAccess)) != 0) return EINVAL;
  if ((access & needs_local_write) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) return EINVAL;
  return 0;
}

bool IsOnDemand(const MemoryRequest& request) {
  return (request.access & IBV_ACCESS_ON_DEMAND) != 0;
}

int CheckRequest(const MemoryRequest& request) {
  const uint64_t end = request.addr + request.length;
  if (end < request.addr) return EINVAL;
  if (!IsOnDemand(request) && PageUp(end) < end) return EINVAL;
  const bool is_zero_based = (request.access & IBV_ACCESS_ZERO_BASED) != 0;
  if (!is_zero_based) {
    if (request.iova % kPageBytes != request.addr % kPageBytes) return EINVAL;
    if (request.iova + request.length < request.iova) return EINVAL;
  }
  return CheckAccess(request.access);
}

/// valgrind preloads its own library. valgrind would take remapped pages as defined and addressable
/// as a whole, whatever it knew of the bytes before.
bool IsUnderValgrind() {
  const char* preloaded = secure_getenv("LD_PRELOAD");
  return preloaded != nullptr && strstr(preloaded, "/vgpreload_core") != nullptr;
}

MrPolicy PolicyOfEnvironment() {
  const char* value = secure_getenv("UROCE_MR");
  if (value != nullptr && strcmp(value, "mapped") == 0) return MrPolicy::kMapped;
  if (value != nullptr && strcmp(value, "copied") == 0) return MrPolicy::kCopied;
  return IsUnderValgrind() ? MrPolicy::kCopied : MrPolicy::kAutomatic;
}

/// UROCE_USERFAULTFD=0: as where the kernel gives none.
bool TakesUserfaultfd() {
  const char* value = secure_getenv("UROCE_USERFAULTFD");
  return value == nullptr || strcmp(value, "0") != 0;
}

int PlanNothing(Registry& registry) {
  registry.ClearFacts();
  registry.parts.Clear();
  return 0;
}

/// On-demand memory may come, go and move, so each access goes to its address by copying.
int PlanOnDemand(Registry& registry, const MemoryRequest& request) {
  (void)PlanNothing(registry);
  RegionPart all = {};
  all.addr = request.addr;
  all.length = request.length;
  MakeCopied(all, UROCE_WHY_ON_DEMAND);
  return registry.parts.Append(all) ? 0 : ENOMEM;
}

int PlanDevice(Registry& registry, const MemoryRequest& request) {
  (void)PlanNothing(registry);
  RegionPart all = {};
  all.addr = request.addr;
  all.length = request.length;
  all.kind = PartKind::kStaged;
  all.reason = UROCE_WHY_DEVICE;
  return registry.parts.Append(all) ? 0 : ENOMEM;
}

/// Only such a mapping can be one of a live segment.
bool HasSharedMapping(const Registry& registry) {
  return std::any_of(registry.mappings.begin(), registry.mappings.end(),
                     [](const Vma& vma) { return vma.shared; });
}

/// Reads the mappings and threads, and splits the region.
int PlanRegion(Registry& registry, const Daemon& daemon, const MemoryRequest& request,
               uint64_t tls_bytes) {
  if (request.is_device) return PlanDevice(registry, request);
  if (IsOnDemand(request)) return PlanOnDemand(registry, request);
  if (request.length == 0) return PlanNothing(registry);
  const AddressRange region{request.addr, request.addr + request.length};
  PlanRequest plan{.region = region,
                   .needs_write = (request.access & kWriteAccess) != 0,
                   .policy = registry.policy,
                   .knows_threads = true,
                   .whole_partial_pages = registry.support.kernel_mode,
                   .max_parts = UROCE_MAX_MR_PARTS};
  registry.ClearFacts();
  int error = FindMaps(region, PlanWindow(region), registry.mappings);
  if (error != 0) return error;
  // Without knowledge of the threads, any memory might be a stack.
  plan.knows_threads = ListThreads(registry.threads) == 0;
  if (registry.IsAlone()) plan.whole_partial_pages = true;
  const ThreadFacts threads{
      .mappings = registry.mappings.span(),
      .threads = registry.threads.span(),
      .static_tls_bytes = tls_bytes,
      .stack_pointer = reinterpret_cast<uint64_t>(__builtin_frame_address(0))};
  if (!FindUntouchable(threads, registry.untouchable)) return ENOMEM;
  if (!registry.untouchable.Append(RemapStack())) return ENOMEM;
  if (HasSharedMapping(registry) && !registry.segments.ListLive(daemon.connection, registry.live)) {
    return ENOMEM;
  }
  const PlanFacts facts{.mappings = registry.mappings.span(),
                        .untouchable = registry.untouchable.span(),
                        .live = registry.live.span()};
  return Plan(plan, facts, registry.parts);
}

/// Whether the pages are the program's own, and not a segment's from an earlier remap.
bool IsPrivate(const RegionPart& part) { return part.vma->kind != VmaKind::kSegment; }

/// Whether the private mapping of `part` is kept, to be mapped back. Its move would be visible to
/// system calls of other threads if these could not be made to wait.
bool KeepsMapping(const Registry& registry, const RegionPart& part) {
  return IsPrivate(part) && (registry.support.kernel_mode || registry.IsAlone());
}

/// A duplicate of the fd of a long segment's file with holes; negative: the file is not kept open.
int64_t HeldCopy(const Registry& registry, uint64_t length, int memfd) {
  if (length < kHeldFileBytes || !registry.segments.MayHoldFile()) return -1;
  const int64_t hole = SystemCall(SYS_lseek, memfd, 0, SEEK_HOLE);
  if (hole >= 0 && static_cast<uint64_t>(hole) >= length) return -1;
  return SystemCall(SYS_fcntl, memfd, F_DUPFD_CLOEXEC, 0);
}

/// Maps `grant`'s memfd over the pages of `part`, and enters it into the table. On an errno nothing
/// has changed.
int RemapFor(Registry& registry, const Daemon& daemon, const RegionPart& part,
             const SegmentGrant& grant, uint32_t& index) {
  SegmentExtent extent{.device = 0,
                       .inode = 0,
                       .offset = 0,
                       .length = part.pages.end - part.pages.start,
                       .writable = true};
  if (!IdentityOf(grant.memfd, extent.device, extent.inode)) return EBADF;
  index = registry.segments.Add(daemon.connection, extent, UROCE_MR_MAPPED, grant.handle);
  if (index == SegmentTable::kNone) return ENOMEM;
  const RemapRequest remap{.pages = part.pages,
                           .protection = part.protection,
                           .memfd = grant.memfd,
                           .is_private = IsPrivate(part),
                           .keep = KeepsMapping(registry, part),
                           .checks_pins = IsPrivate(part) && registry.SeesPins()};
  registry.places.Add(part.pages);
  RemapResult result;
  const int error = RemapPages(registry.OthersForRemap(part.pages), remap, result);
  if (error != 0) {
    if (!result.stays) registry.places.Remove(part.pages);
    registry.segments.Remove(index);
    return error;
  }
  registry.segments.NoteRemap(index, {.pages = part.pages,
                                      .kept = result.kept,
                                      .returned_bytes = 0,
                                      .memfd = HeldCopy(registry, extent.length, grant.memfd)});
  return 0;
}

/// Makes `part` a part of segment `index`, to which the region gets a reference.
void Refer(Registry& registry, const Daemon& daemon, uint32_t index, uint64_t file_offset,
           RegionPart& part, MemoryRegistration& registration) {
  const AddressRange pages{PageDown(file_offset), PageUp(file_offset + part.length)};
  const uint32_t reference = registry.segments.AddReference({.segment = index, .pages = pages});
  const bool is_noted = reference != SegmentTable::kNone;
  if (is_noted && registration.references.Append(reference)) {
    return MakeLive(part, index, file_offset);
  }
  if (is_noted) {
    registry.DropReference(daemon, reference);
  } else if (!registry.segments.IsReferenced(index)) {
    registry.EndSegment(daemon, index);
  }
  MakeCopied(part, UROCE_WHY_REFUSED);
}

uroce_mr_reason WhyNotRemapped(int error) {
  if (error == EBUSY) return UROCE_WHY_PINNED;
  return error == ENOMEM ? UROCE_WHY_MANY_MAPPINGS : UROCE_WHY_REFUSED;
}

/// Makes a part to be remapped live, or copied where a remap is impossible: writers cannot be made
/// to wait, the kernel refuses (vm.max_map_count reached), or the daemon has no memory for it.
void RemapPart(Registry& registry, const Daemon& daemon, RegionPart& part,
               MemoryRegistration& registration) {
  const uroce_mr_reason reason = registry.WhyNotWait(part.pages);
  if (reason != UROCE_WHY_NONE) return MakeCopied(part, reason);
  if (!registry.map_budget.Take()) return MakeCopied(part, UROCE_WHY_MANY_MAPPINGS);
  const uroce_create_segment create{.addr = part.pages.start,
                                    .length = part.pages.end - part.pages.start};
  SegmentGrant grant;
  if (daemon.create_segment(daemon.connection, create, grant) != 0) {
    return MakeCopied(part, UROCE_WHY_DAEMON_LIMIT);
  }
  uint32_t index;
  const int error = RemapFor(registry, daemon, part, grant, index);
  if (error != 0) {
    (void)daemon.destroy_segment(daemon.connection, grant.handle);
    MakeCopied(part, WhyNotRemapped(error));
  } else {
    Refer(registry, daemon, index, part.addr - part.pages.start, part, registration);
  }
  SystemCall(SYS_close, grant.memfd);
}

/// Lends the file of a shared part, and enters it into the table. On an error the part stays
/// copied.
uroce_mr_reason LendFile(Registry& registry, const Daemon& daemon, const RegionPart& part,
                         const SharedFile& file, uint32_t& index) {
  SharedGrant grant;
  const int error = daemon.share_file(daemon.connection, file, grant);
  if (error == EBUSY) return UROCE_WHY_REST;
  if (error == UROCE_LEND_FREEABLE) return UROCE_WHY_NOT_SEALED;
  if (error != 0) return error == ENOMEM ? UROCE_WHY_DAEMON_LIMIT : UROCE_WHY_NOT_REACHABLE;
  const SegmentExtent extent{.device = part.vma->device,
                             .inode = part.vma->inode,
                             .offset = grant.offset,
                             .length = grant.length,
                             .writable = file.writable};
  const bool is_right = extent.Holds(part.file_offset, part.length);
  index = is_right ? registry.segments.Add(daemon.connection, extent, UROCE_MR_SHARED, grant.handle)
                   : SegmentTable::kNone;
  if (index != SegmentTable::kNone) return UROCE_WHY_NONE;
  (void)daemon.destroy_segment(daemon.connection, grant.handle);
  return UROCE_WHY_REFUSED;
}

/// Makes a part of a shared file live, or copied where neither side can open the file.
void SharePart(Registry& registry, const Daemon& daemon, bool writable, RegionPart& part,
               MemoryRegistration& registration) {
  const BackingFile backing = OpenBackingFile(*part.vma, writable);
  if (backing.kind == BackingFile::Kind::kOther) return MakeCopied(part, UROCE_WHY_FILE_SYSTEM);
  const uint64_t offset = PageDown(part.file_offset);
  const SharedFile file{.vma = part.vma->range(),
                        .writable = writable,
                        .fd = backing.fd,
                        .offset = offset,
                        .length = PageUp(part.file_offset + part.length) - offset};
  uint32_t index;
  const uroce_mr_reason reason = LendFile(registry, daemon, part, file, index);
  if (reason == UROCE_WHY_NONE) {
    Refer(registry, daemon, index, part.file_offset, part, registration);
  } else {
    MakeCopied(part, reason);
  }
  if (backing.fd >= 0) SystemCall(SYS_close, backing.fd);
}

bool HasPart(const Registry& registry, PartKind kind) {
  for (const RegionPart& part : registry.parts) {
    if (part.kind == kind) return true;
  }
  return false;
}

/// Whether the daemon maps no part, and no access may wait.
bool IsCopied(const Registry& registry) {
  return std::all_of(registry.parts.begin(), registry.parts.end(), [](const RegionPart& part) {
    return part.kind == PartKind::kCopied && uroce_access_may_wait(part.reason) == 0;
  });
}

/// Has pages copied that may be pinned, where the remap would not see it.
void KeepPinned(Registry& registry) {
  const auto is_blind = [&registry](const RegionPart& part) {
    return part.kind == PartKind::kRemap && !(IsPrivate(part) && registry.SeesPins());
  };
  const bool is_any_blind = std::any_of(registry.parts.begin(), registry.parts.end(), is_blind);
  if (!is_any_blind || !registry.MustStay()) return;
  for (RegionPart& part : registry.parts) {
    if (is_blind(part)) MakeCopied(part, UROCE_WHY_PINNED);
  }
}

/// Takes references to the segments that the plan found, then makes the other parts reachable. In
/// this order, because a part behind a live segment's end must not end that segment.
void MakePartsReachable(Registry& registry, const Daemon& daemon, bool needs_write,
                        MemoryRegistration& registration) {
  for (RegionPart& part : registry.parts) {
    if (part.kind != PartKind::kLive) continue;
    Refer(registry, daemon, part.segment, part.file_offset, part, registration);
  }
  KeepPinned(registry);
  for (RegionPart& part : registry.parts) {
    if (part.kind == PartKind::kRemap) RemapPart(registry, daemon, part, registration);
    if (part.kind == PartKind::kShare) {
      SharePart(registry, daemon, needs_write, part, registration);
    }
  }
  JoinParts(registry.parts);
}

/// Passes /proc/self/mem of this program to the daemon once: it reaches copied parts by it.
int EnsureMemoryFd(Registry& registry, const Daemon& daemon) {
  if (registry.memory_fd_session == daemon.connection) return 0;
  const int64_t fd = OpenProcessFile(ProcessFile::kMemory);
  if (fd < 0) return static_cast<int>(-fd);
  const int error = daemon.send_memory_fd(daemon.connection, static_cast<int>(fd));
  if (error != 0) return error;
  registry.memory_fd_session = daemon.connection;
  // The daemon copies by itself where there is no thread. valgrind would call what the thread has
  // been given by glibc lost.
  if (!IsUnderValgrind()) (void)daemon.open_copies(daemon.connection);
  return 0;
}

/// The program's thread serves the daemon's requests for device memory from then on.
int EnsureStage(Registry& registry, const Daemon& daemon, uint64_t address) {
  if (registry.stage_session == daemon.connection) return 0;
  const int error = daemon.open_stage(daemon.connection, address);
  if (error == 0) registry.stage_session = daemon.connection;
  return error;
}

bool IsOfFile(const RegionPart& part) {
  return part.kind == PartKind::kCopied &&
         (part.reason == UROCE_WHY_FILE_MAPPING || part.reason == UROCE_WHY_FILE_SYSTEM ||
          part.reason == UROCE_WHY_NOT_REACHABLE);
}

/// Brings in the pages of mapped files, as an adapter's driver does when it pins them. EFAULT:
/// these are secret memory, a device's memory, or pages behind the end of their file.
int CheckFilePages(const Registry& registry) {
  for (const RegionPart& part : registry.parts) {
    if (!IsOfFile(part)) continue;
    const uint64_t start = PageDown(part.addr);
    const int64_t result =
        SystemCall(SYS_madvise, start, PageUp(part.addr + part.length) - start, MADV_POPULATE_READ);
    if (result == -EFAULT) return EFAULT;
    const AddressRange own = RemapStack();  // An older kernel does not know the advice here either.
    if (result == -EINVAL &&
        SystemCall(SYS_madvise, own.start, kPageBytes, MADV_POPULATE_READ) == 0) {
      return EFAULT;
    }
  }
  return 0;
}

bool IsLimit(uroce_mr_reason reason) {
  return reason == UROCE_WHY_MANY_PARTS || reason == UROCE_WHY_MANY_MAPPINGS ||
         reason == UROCE_WHY_DAEMON_LIMIT || reason == UROCE_WHY_NO_USERFAULTFD;
}

uint64_t LimitedBytes(const Registry& registry) {
  uint64_t bytes = 0;
  for (const RegionPart& part : registry.parts) {
    if (part.kind == PartKind::kCopied && IsLimit(part.reason)) bytes += part.length;
  }
  return bytes;
}

uint64_t MappedBytes(const Registry& registry) {
  uint64_t bytes = 0;
  for (const RegionPart& part : registry.parts) {
    if (part.kind == PartKind::kLive && registry.segments.mode(part.segment) == UROCE_MR_MAPPED) {
      bytes += part.length;
    }
  }
  return bytes;
}

uint32_t HowRemapped(const Registry& registry, uint32_t mode) {
  const bool is_signal = registry.support.origin == FaultSupport::Origin::kSignal;
  return is_signal && mode == UROCE_MR_MAPPED ? UROCE_WHY_NO_USERFAULTFD : UROCE_WHY_NONE;
}

uroce_mr_segment SegmentOf(const Registry& registry, const RegionPart& part) {
  uroce_mr_segment segment = {};
  segment.addr = part.addr;
  segment.length = part.length;
  segment.mode = UROCE_MR_COPIED;
  segment.segment = UROCE_NONE;
  segment.reason = part.reason;
  if (part.kind == PartKind::kStaged) segment.mode = UROCE_MR_STAGED;
  if (part.kind == PartKind::kLive) {
    segment.mode = registry.segments.mode(part.segment);
    segment.reason = HowRemapped(registry, segment.mode);
    segment.segment = registry.segments.handle(part.segment);
    segment.segment_offset = part.file_offset - registry.segments.file_offset(part.segment);
  }
  return segment;
}

/// `replaces` is the handle of the region to change, or UROCE_NONE.
int TellDaemon(Registry& registry, const Daemon& daemon, const MemoryRequest& request,
               uint32_t replaces, MemoryRegistration& registration) {
  // Also for mapped memory, which rests when workers had to wait for it. A program that may not
  // open its memory does without that.
  int error = EnsureMemoryFd(registry, daemon);
  const bool needs_helper = request.is_device || HasPart(registry, PartKind::kCopied);
  if (error != 0 && needs_helper) return error;
  if (request.is_device) error = EnsureStage(registry, daemon, request.addr);
  if (error != 0 && request.is_device) return error;
  registry.list.Clear();
  for (const RegionPart& part : registry.parts) {
    if (!registry.list.Append(SegmentOf(registry, part))) return ENOMEM;
  }
  const uroce_reg_mr region{
      .pd = request.pd,
      .access = request.access & kKnownAccess,
      .addr = request.addr,
      .length = request.length,
      .iova = (request.access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : request.iova,
      .segment_count = static_cast<uint32_t>(registry.list.size()),
      .replaces = replaces};
  uroce_reg_mr_reply reply;
  const int refused =
      daemon.register_region(daemon.connection, region, registry.list.begin(), reply);
  if (refused != 0) return refused;
  registration.handle = reply.handle;
  registration.lkey = reply.lkey;
  registration.rkey = reply.rkey;
  return 0;
}

void DropReferences(Registry& registry, const Daemon& daemon, MemoryRegistration& registration) {
  registration.references.TakeAll(
      [&registry, &daemon](uint32_t reference) { registry.DropReference(daemon, reference); });
}

int Register(Registry& registry, const Daemon& daemon, const MemoryRequest& request,
             uint64_t tls_bytes, uint32_t replaces, MemoryRegistration& registration) {
  registry.Prepare(daemon, PolicyOfEnvironment, TakesUserfaultfd);
  registration.references = {};
  registration.epoch = registry.epoch;
  int error = PlanRegion(registry, daemon, request, tls_bytes);
  if (error != 0) return error;
  const bool needs_write = (request.access & kWriteAccess) != 0;
  MakePartsReachable(registry, daemon, needs_write, registration);
  registration.limited_bytes = LimitedBytes(registry);
  registration.mapped_bytes = MappedBytes(registry);
  registration.is_copied = IsCopied(registry);
  error = CheckFilePages(registry);
  if (error == 0) error = TellDaemon(registry, daemon, request, replaces, registration);
  if (error != 0) DropReferences(registry, daemon, registration);
  return error;
}

/// About how many bytes copy threads would copy. Long memory whose middle is a segment's already is
/// most often registered once more.
uint64_t BytesToCopy(const Daemon& daemon, const MemoryRequest& request) {
  if (request.length < kLeastThreadedBytes || request.is_device || IsOnDemand(request)) return 0;
  const uint64_t middle = PageDown(request.addr + request.length / 2);
  if (MayBeRemapped({middle, middle + kPageBytes})) return 0;
  const RegistryLock registry;
  registry->Prepare(daemon, PolicyOfEnvironment, TakesUserfaultfd);
  const bool is_threaded = registry->policy != MrPolicy::kCopied &&
                           registry->support.origin != FaultSupport::Origin::kSignal;
  if (!is_threaded) return 0;
  return TouchedBytes(OpenProcessFile(ProcessFile::kPageMap),
                      {request.addr, request.addr + request.length});
}

/// The registry with the copy threads of this thread.
class ThreadedRegistry {
 public:
  explicit ThreadedRegistry(CopyThreads& threads) { lock_->copy_threads = &threads; }
  ~ThreadedRegistry() { lock_->copy_threads = nullptr; }
  ThreadedRegistry(const ThreadedRegistry&) = delete;
  ThreadedRegistry& operator=(const ThreadedRegistry&) = delete;
  Registry* operator->() const { return lock_.operator->(); }
  Registry& operator*() const { return *lock_; }

 private:
  RegistryLock lock_;
};

}  // namespace

void PrepareForRegistrations() {
  const RegistryLock registry;
  KeepProcessFiles();
}

int RegisterMemory(const Daemon& daemon, const MemoryRequest& request,
                   MemoryRegistration& registration) {
  const int invalid = CheckRequest(request);
  if (invalid != 0) return invalid;
  // Called before the lock, since it takes a lock of the dynamic loader.
  const uint64_t tls_bytes = StaticTlsBytes();
  CopyThreads copy_threads(BytesToCopy(daemon, request));
  const ThreadedRegistry registry(copy_threads);
  return Register(*registry, daemon, request, tls_bytes, UROCE_NONE, registration);
}

int ReregisterMemory(const Daemon& daemon, const MemoryRequest& request,
                     MemoryRegistration& registration) {
  const int invalid = CheckRequest(request);
  if (invalid != 0) return invalid;
  const uint64_t tls_bytes = StaticTlsBytes();
  CopyThreads copy_threads(BytesToCopy(daemon, request) + registration.mapped_bytes);
  const ThreadedRegistry registry(copy_threads);
  if (registration.epoch != registry->epoch) return EIO;  // The parent of this fork child made it.
  MemoryRegistration next = {};
  const int error = Register(*registry, daemon, request, tls_bytes, registration.handle, next);
  if (error != 0) return error;
  DropReferences(*registry, daemon, registration);
  registration = next;
  return 0;
}

int DeregisterMemory(const Daemon& daemon, MemoryRegistration& registration) {
  CopyThreads copy_threads(registration.mapped_bytes);
  const ThreadedRegistry registry(copy_threads);
  const int error = daemon.deregister_region(daemon.connection, registration.handle);
  if (error != 0 && error != EIO) return error;
  if (registration.epoch == registry->epoch) DropReferences(*registry, daemon, registration);
  return error;
}

void SetPolicy(MrPolicy policy) {
  const RegistryLock registry;
  registry->policy = policy;
  registry->has_policy = true;
}

// ---- Advice ----
// Applied to mappings of segments, which are shared where the program's own were private.

namespace {

constexpr int kDontNeedLocked = 24;  // MADV_DONTNEED_LOCKED, which Debian 12's headers lack.

int64_t Tell(AddressRange range, int advice) {
  return SystemCall(SYS_madvise, range.start, range.end - range.start, advice);
}

/// Whether the advice becomes a lasting property of the mapping.
bool IsLasting(int advice) {
  switch (advice) {
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_DONTFORK:
    case MADV_DOFORK:
    case MADV_MERGEABLE:
    case MADV_UNMERGEABLE:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_DONTDUMP:
    case MADV_DODUMP:
    case MADV_WIPEONFORK:
    case MADV_KEEPONFORK:
      return true;
    default:
      return false;
  }
}

/// Advises the segment's mapping and the kept one, and returns the kept one's result, as the
/// program's own memory would give it. A child made by clone runs no handlers, and has the
/// segment's mapping.
int64_t TellBoth(const Registry& registry, const Vma& vma, AddressRange range, int advice) {
  const int64_t shared = Tell(range, advice);
  const uint64_t kept = registry.segments.KeptFor(vma, range);
  if (kept == 0) return shared;
  return Tell({kept, kept + (range.end - range.start)}, advice);
}

/// Writes zeros to the pages of `vma`'s file, by a mapping for this: the program's may be
/// read-only.
int64_t Clear(const Registry& registry, const Vma& vma, AddressRange range) {
  const uint64_t length = range.end - range.start;
  const int64_t place = MapAgain(range);
  if (IsError(place)) return -EAGAIN;
  FilePages(registry.segments.FileOf(vma))
      .Clear(vma.file_offset + (range.start - vma.start), static_cast<uint64_t>(place), length);
  return SystemCall(SYS_munmap, place, length);
}

/// Dropped pages of shared memory are still in the file: a hole in the file reads as zeros. Where
/// the daemon made the file immutable, the kernel lets no program make one.
int64_t Drop(const Registry& registry, const Vma& vma, AddressRange range, int advice) {
  int64_t result = Tell(range, advice);  // Fails where memory is locked.
  if (result == 0) result = Tell(range, MADV_REMOVE);
  const bool is_refused = result == -EPERM || result == -EACCES;
  return is_refused ? Clear(registry, vma, range) : result;
}

int64_t AdviseSegment(const Registry& registry, const Vma& vma, AddressRange range, int advice) {
  if (advice == MADV_DONTNEED || advice == kDontNeedLocked)
    return Drop(registry, vma, range, advice);
  if (advice == MADV_FREE) return 0;  // The kernel may free the pages at any later time.
  if (advice == MADV_REMOVE) return -EINVAL;
  if (IsLasting(advice)) return TellBoth(registry, vma, range, advice);
  return Tell(range, advice);
}

/// Advises `range` in pieces: each segment, and all between two segments. Like the kernel, it goes
/// on after a gap and reports the gap at the end.
int64_t AdvisePieces(const Registry& registry, AddressRange range, int advice) {
  bool has_gap = false;
  uint64_t at = range.start;
  const auto note = [&has_gap](int64_t result) {
    has_gap |= result == -ENOMEM;
    return result == -ENOMEM ? 0 : result;
  };
  for (const Vma& vma : registry.returned) {
    if (vma.kind != VmaKind::kSegment || !vma.range().Meets(range)) continue;
    const AddressRange piece{vma.start > at ? vma.start : at,
                             vma.end < range.end ? vma.end : range.end};
    int64_t result = at < piece.start ? note(Tell({at, piece.start}, advice)) : 0;
    if (result == 0) result = note(AdviseSegment(registry, vma, piece, advice));
    if (result != 0) return result;
    at = piece.end;
  }
  if (at < range.end) {
    const int64_t result = note(Tell({at, range.end}, advice));
    if (result != 0) return result;
  }
  return has_gap ? -ENOMEM : 0;
}

}  // namespace

int64_t Advise(uint64_t address, uint64_t length, int advice) {
  const AddressRange range{address, PageUp(address + length)};
  const bool is_plain =
      address % kPageBytes != 0 || range.end <= range.start || !MayBeRemapped(range);
  if (is_plain) return SystemCall(SYS_madvise, address, length, advice);
  const RegistryVisit registry;
  if (registry.is_own()) return SystemCall(SYS_madvise, address, length, advice);
  if (!registry.is_inside()) return -EAGAIN;
  if (FindMaps(range, range, registry->returned) != 0) return -EAGAIN;
  return AdvisePieces(*registry, range, advice);
}

}  // namespace uroce::memory
