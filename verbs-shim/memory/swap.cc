// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/swap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

#include "verbs-shim/memory/backing_file.h"
#include "verbs-shim/memory/process_files.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {

// ---- Private pages to a memfd, and back ----

namespace {

constexpr uint64_t kHugeBytes = 2 << 20;
constexpr int kReadWrite = PROT_READ | PROT_WRITE;

/// Any advice that the kernel refuses for locked memory shows it; this advice has no other effect.
bool IsLocked(uint64_t page) {
  return SystemCall(SYS_madvise, page, kPageBytes, MADV_COLD) == -EINVAL;
}

/// Reserves addresses at the same offset in a huge page as `pages`: then the move takes whole page
/// tables, and not one page after the other. Returns an address or a negative errno.
int64_t Reserve(AddressRange pages) {
  const uint64_t length = pages.end - pages.start;
  const uint64_t spare = length >= kHugeBytes ? kHugeBytes : 0;
  const int64_t area = SystemCall(SYS_mmap, 0, length + spare, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (IsError(area) || spare == 0) return area;
  const uint64_t start = static_cast<uint64_t>(area);
  const uint64_t below = (pages.start - start) % kHugeBytes;
  if (below != 0) SystemCall(SYS_munmap, start, below);
  if (below != spare) SystemCall(SYS_munmap, start + below + length, spare - below);
  return static_cast<int64_t>(start + below);
}

/// One swap: its steps, in order. Makes raw system calls only and writes nothing but this stack.
class Swap {
 public:
  Swap(const FaultSupport* support, const SwapRequest& request)
      : support_(support), request_(request) {}

  int64_t Run() {
    if (request_.keep) PrepareToKeep();
    WriteProtection protection;
    int64_t result = 0;
    if (support_ != nullptr) {
      result = protection.Begin(*support_, request_.pages, request_.protection);
    }
    if (result == 0) result = CopyOut();
    if (result == 0) result = Exchange(protection);
    protection.End(result == 0);
    if (kept_ != 0) {
      EmptyKept();
    } else if (place_ != 0) {
      SystemCall(SYS_munmap, place_, Length());
    }
    return result;
  }

  uint64_t kept() const { return kept_; }

 private:
  void PrepareToKeep() {
    const int64_t place = Reserve(request_.pages);
    if (!IsError(place)) place_ = static_cast<uint64_t>(place);
    is_locked_ = IsLocked(request_.pages.start);
  }

  int64_t CopyOut() {
    if (!AllowsFileOf(Length())) return CopyOutByMapping();
    for (uint64_t done = 0; done < Length();) {
      const int64_t written = SystemCall(SYS_pwrite64, request_.memfd, request_.pages.start + done,
                                         Length() - done, done);
      if (written <= 0) return written == 0 ? -EIO : written;
      done += static_cast<uint64_t>(written);
    }
    return 0;
  }

  /// Costs a fault for each page.
  int64_t CopyOutByMapping() {
    const int64_t place =
        SystemCall(SYS_mmap, 0, Length(), kReadWrite, MAP_SHARED, request_.memfd, 0);
    if (IsError(place)) return place;
    CopyUsedPages(static_cast<uint64_t>(place), request_.pages.start, Length());
    SystemCall(SYS_munmap, place, Length());
    return 0;
  }

  /// Moves the mapping away, which leaves an empty one, on which threads wait until the memfd is
  /// mapped there.
  int64_t Exchange(WriteProtection& protection) {
    const bool can_move = support_ == nullptr || protection.HoldAbsent() == 0;
    if (place_ != 0 && can_move) MoveAway();
    const int64_t result = SystemCall(SYS_mmap, request_.pages.start, Length(), request_.protection,
                                      MAP_SHARED | MAP_FIXED, request_.memfd, 0);
    if (!IsError(result)) return 0;
    if (kept_ != 0) MoveBack();
    return result;
  }

  /// Locked pages are unlocked before: the kernel would unlock all of the mapping that they are a
  /// part of (Linux 6.18).
  void MoveAway() {
    if (is_locked_) SystemCall(SYS_munlock, request_.pages.start, Length());
    const int64_t result = SystemCall(SYS_mremap, request_.pages.start, Length(), Length(),
                                      MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, place_);
    if (!IsError(result)) kept_ = place_;
    place_ = 0;  // After a failed move another thread's mapping may be there.
    if (kept_ == 0) LockAgain();
  }

  void MoveBack() {
    SystemCall(SYS_mremap, kept_, Length(), Length(), MREMAP_MAYMOVE | MREMAP_FIXED,
               request_.pages.start);
    kept_ = 0;
    LockAgain();
  }

  void LockAgain() {
    if (is_locked_) SystemCall(SYS_mlock, request_.pages.start, Length());
  }

  /// Drops the kept mapping's pages: the segment has the contents now, and also their lock. Without
  /// access, because mlockall(2) would bring in pages again.
  void EmptyKept() {
    LockAgain();
    SystemCall(SYS_madvise, kept_, Length(), MADV_DONTNEED);
    SystemCall(SYS_mprotect, kept_, Length(), PROT_NONE);
  }

  uint64_t Length() const { return request_.pages.end - request_.pages.start; }

  const FaultSupport* support_;
  const SwapRequest& request_;
  uint64_t place_ = 0;  // where the private mapping is to go
  uint64_t kept_ = 0;   // where it is
  bool is_locked_ = false;
};

/// One swap back, under the same rules.
class Return {
 public:
  Return(const FaultSupport* support, const Vma& vma, uint64_t kept)
      : support_(support), vma_(vma), kept_(kept) {}

  int64_t Run() {
    const int64_t place = kept_ != 0 ? static_cast<int64_t>(kept_) : Map();
    if (IsError(place)) return place;
    place_ = static_cast<uint64_t>(place);
    const int64_t result = FillAndMove();
    if (result != 0 && kept_ == 0) SystemCall(SYS_munmap, place_, Length());
    return result;
  }

  uint64_t kept() const { return kept_; }

 private:
  int64_t Map() {
    return SystemCall(SYS_mmap, 0, Length(), kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }

  int64_t FillAndMove() {
    if (kept_ != 0) {
      const int64_t result = SystemCall(SYS_mprotect, place_, Length(), kReadWrite);
      if (result != 0) return result;
    }
    WriteProtection protection;
    int64_t result = 0;
    if (support_ != nullptr) {
      result = protection.Begin(*support_, vma_.range(), ProtectionOf(vma_));
    }
    if (result == 0) result = Fill();
    if (result == 0) result = Move();
    protection.End(result == 0);
    if (result == 0 && is_locked_) SystemCall(SYS_mlock, vma_.start, Length());
    return result;
  }

  int64_t Fill() {
    is_locked_ = IsLocked(vma_.start);
    if (vma_.readable) {
      CopyUsedPages(place_, vma_.start, Length());
      return 0;
    }
    return FillByFile();
  }

  /// Pages without access can be read only by the file, while other threads rely on their being
  /// without access.
  int64_t FillByFile() {
    const int64_t fd = OpenProcessFile(ProcessFile::kMemory);
    if (fd < 0) return fd;
    int64_t result = 0;
    for (uint64_t done = 0; done < Length() && result >= 0;) {
      result = SystemCall(SYS_pread64, fd, place_ + done, Length() - done, vma_.start + done);
      if (result == 0) result = -EIO;
      if (result > 0) done += static_cast<uint64_t>(result);
    }
    return result < 0 ? result : 0;
  }

  int64_t Move() {
    const int protection = ProtectionOf(vma_);
    if (protection != kReadWrite) {
      const int64_t result = SystemCall(SYS_mprotect, place_, Length(), protection);
      if (result != 0) return result;
    }
    // Other pages of the kept mapping may still be wanted, and no other mapping may come between.
    // When the kernel has no memory for that, it has unmapped the segment's pages nevertheless.
    if (kept_ != 0 && MoveTo(MREMAP_DONTUNMAP) == 0) {
      SystemCall(SYS_mprotect, place_, Length(), PROT_NONE);
      return 0;
    }
    const int64_t result = MoveTo(0);
    if (result == 0) kept_ = 0;
    return result;
  }

  int64_t MoveTo(int flags) {
    const int64_t result = SystemCall(SYS_mremap, place_, Length(), Length(),
                                      MREMAP_MAYMOVE | MREMAP_FIXED | flags, vma_.start);
    return IsError(result) ? result : 0;
  }

  uint64_t Length() const { return vma_.end - vma_.start; }

  const FaultSupport* support_;
  const Vma& vma_;
  uint64_t kept_;
  uint64_t place_ = 0;  // where the private pages are made
  bool is_locked_ = false;
};

struct SwapCall {
  const FaultSupport* support;
  const SwapRequest* request;
  uint64_t kept;
  int64_t result;
};

void RunSwap(void* argument) {
  auto* call = static_cast<SwapCall*>(argument);
  Swap swap(call->support, *call->request);
  const int64_t result = swap.Run();
  call->result = result;
  call->kept = swap.kept();
}

struct ReturnCall {
  const FaultSupport* support;
  const Vma* vma;
  uint64_t kept;
  int64_t result;
};

void RunReturn(void* argument) {
  auto* call = static_cast<ReturnCall*>(argument);
  const Vma vma = *call->vma;
  Return way(call->support, vma, call->kept);
  const int64_t result = way.Run();
  call->result = result;
  call->kept = way.kept();
}

}  // namespace

int SwapPages(const FaultSupport* support, const SwapRequest& request, uint64_t& kept) {
  kept = 0;
  if (SwapStack().Meets(request.pages)) return ENOMEM;
  SwapCall call{.support = support, .request = &request, .kept = 0, .result = -EFAULT};
  if (!RunOnSwapStack(RunSwap, &call)) return ENOMEM;
  kept = call.kept;
  // One fault per page at later first writes would cost twice as much (0.13 against 0.28 ms/MB).
  if (call.result == 0) {
    const uint64_t length = request.pages.end - request.pages.start;
    SystemCall(SYS_madvise, request.pages.start, length, MADV_POPULATE_READ);
  }
  return static_cast<int>(-call.result);
}

int SwapBack(const FaultSupport* support, const Vma& vma, uint64_t& kept) {
  ReturnCall call{.support = support, .vma = &vma, .kept = kept, .result = -EFAULT};
  if (!RunOnSwapStack(RunReturn, &call)) return ENOMEM;
  kept = call.kept;
  return static_cast<int>(-call.result);
}

// ---- All of a segment's mappings to private memory ----

namespace {

constexpr AddressRange kWholeFile{0, UINT64_MAX};

/// The pages of a segment that are to be given back.
struct Wanted {
  const SegmentExtent& extent;
  SwappedMemory& swapped;
  std::span<const AddressRange> pages;  // of the file, in rising offsets
  uint64_t bytes;  // of these pages at their first place, if none has moved or gone
};

bool IsOf(const Vma& vma, const SegmentExtent& extent) {
  return vma.kind == VmaKind::kSegment && vma.inode == extent.inode && vma.device == extent.device;
}

/// The part of `vma` from `from` to `to`, cut at its ends.
Vma PartOf(const Vma& vma, uint64_t from, uint64_t to) {
  Vma part = vma;
  part.start = from;
  part.end = to;
  part.file_offset += from - vma.start;
  return part;
}

/// Appends the parts of `vma` that are among `pages`. False: no memory.
bool AppendParts(const Vma& vma, std::span<const AddressRange> pages, MappedArray<Vma>& parts) {
  const AddressRange shown{vma.file_offset, vma.file_offset + (vma.end - vma.start)};
  const auto* next = std::partition_point(
      pages.data(), pages.data() + pages.size(),
      [&shown](const AddressRange& range) { return range.end <= shown.start; });
  for (; next != pages.data() + pages.size() && next->start < shown.end; ++next) {
    const uint64_t from = std::max(next->start, shown.start) - shown.start;
    const uint64_t to = std::min(next->end, shown.end) - shown.start;
    if (!parts.Append(PartOf(vma, vma.start + from, vma.start + to))) return false;
  }
  return true;
}

/// Reduces `mappings` to the wanted parts. False: no memory.
bool SelectWanted(const Wanted& wanted, MappedArray<Vma>& mappings) {
  const size_t found = mappings.size();
  for (size_t i = 0; i < found; ++i) {
    const Vma vma = mappings[i];
    if (IsOf(vma, wanted.extent) && !AppendParts(vma, wanted.pages, mappings)) return false;
  }
  std::copy(mappings.begin() + found, mappings.end(), mappings.begin());
  mappings.Truncate(mappings.size() - found);
  return true;
}

bool AreAllInPlace(const Wanted& wanted, const MappedArray<Vma>& mappings) {
  const AddressRange place = wanted.swapped.pages;
  uint64_t bytes = 0;
  for (const Vma& vma : mappings) {
    if (vma.start != place.start + vma.file_offset || vma.end > place.end) return false;
    bytes += vma.end - vma.start;
  }
  return bytes == wanted.bytes;
}

/// Finds the wanted mappings: at their first place if all are there, as nearly always, or anywhere.
bool FindWanted(const Wanted& wanted, MappedArray<Vma>& mappings) {
  const AddressRange all = wanted.swapped.pages;
  const AddressRange place{all.start + wanted.pages.front().start,
                           all.start + std::min(wanted.pages.back().end, all.end - all.start)};
  const AddressRange window{place.start - kPageBytes, place.end + kPageBytes};
  if (FindMaps(place, window, mappings) != 0 || !SelectWanted(wanted, mappings)) return false;
  if (AreAllInPlace(wanted, mappings)) return true;
  mappings.Clear();
  return ReadMaps({0, UINT64_MAX}, mappings) == 0 && SelectWanted(wanted, mappings);
}

/// Pages that mremap added to the segment have no kept mapping.
bool GiveBackMapping(const FaultSupport* support, const Vma& vma, const Wanted& wanted) {
  const uint64_t kept = wanted.swapped.kept, length = wanted.extent.length;
  const uint64_t kept_bytes = kept != 0 && vma.file_offset < length ? length - vma.file_offset : 0;
  const uint64_t split = vma.end - vma.start < kept_bytes ? vma.end : vma.start + kept_bytes;
  bool is_done = true;
  if (vma.start < split) {
    uint64_t place = kept + vma.file_offset;
    is_done = SwapBack(support, PartOf(vma, vma.start, split), place) == 0;
    // After this the kept mapping has a hole, which may be reused; its other parts are left there.
    if (place == 0) wanted.swapped.kept = 0;
  }
  uint64_t nowhere = 0;
  if (split < vma.end) is_done &= SwapBack(support, PartOf(vma, split, vma.end), nowhere) == 0;
  return is_done;
}

/// Maps the same pages of the file a second time. The start is 0 where there is no room for it.
Vma MapAgain(const Vma& vma) {
  const uint64_t length = vma.end - vma.start;
  const int64_t address = SystemCall(SYS_mremap, vma.start, 0, length, MREMAP_MAYMOVE);
  if (IsError(address)) return PartOf(vma, 0, 0);
  Vma again = vma;
  again.start = static_cast<uint64_t>(address);
  again.end = again.start + length;
  return again;
}

/// Unmaps what MapAgain() made. `frees`: also removes these pages from the file.
void Unmap(const Vma& vma, bool frees) {
  if (vma.start == 0) return;
  const uint64_t length = vma.end - vma.start;
  if (frees && SystemCall(SYS_mprotect, vma.start, length, PROT_READ | PROT_WRITE) == 0) {
    SystemCall(SYS_madvise, vma.start, length, MADV_REMOVE);
  }
  SystemCall(SYS_munmap, vma.start, length);
}

}  // namespace

bool GiveBack(const FaultSupport* support, const SegmentExtent& extent, SwappedMemory& swapped,
              MappedArray<Vma>& mappings) {
  const Wanted wanted{.extent = extent,
                      .swapped = swapped,
                      .pages = {&kWholeFile, 1},
                      .bytes = extent.length - swapped.returned_bytes};
  bool is_done = FindWanted(wanted, mappings);
  if (is_done) {
    for (const Vma& vma : mappings) is_done &= GiveBackMapping(support, vma, wanted);
  }
  if (swapped.kept != 0) SystemCall(SYS_munmap, swapped.kept, extent.length);
  return is_done;
}

void GiveBackPages(const FaultSupport* support, const SegmentExtent& extent, SwappedMemory& swapped,
                   std::span<const AddressRange> pages, MappedArray<Vma>& mappings) {
  Wanted wanted{.extent = extent, .swapped = swapped, .pages = pages, .bytes = 0};
  for (const AddressRange& range : pages) wanted.bytes += range.end - range.start;
  if (!FindWanted(wanted, mappings)) return;
  bool is_done = true;
  for (Vma& vma : mappings) {
    const Vma again = MapAgain(vma);
    is_done &= GiveBackMapping(support, vma, wanted);
    vma = again;
  }
  // Not earlier: the program may have mapped the same pages twice.
  for (const Vma& vma : mappings) Unmap(vma, is_done);
  if (is_done) swapped.returned_bytes += wanted.bytes;
}

}  // namespace uroce::memory
