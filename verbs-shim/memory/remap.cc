// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/remap.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cerrno>
#include <climits>

#include "verbs-shim/memory/backing_file.h"
#include "verbs-shim/memory/numa.h"
#include "verbs-shim/memory/pages.h"
#include "verbs-shim/memory/process_files.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {

// ---- What both directions use ----

namespace {

constexpr uint64_t kShortBytes = 2 << 20;
constexpr int kReadWrite = PROT_READ | PROT_WRITE;

constexpr uint64_t LengthOf(AddressRange range) { return range.end - range.start; }

/// Any advice that the kernel refuses for locked memory shows it; this advice has no other effect.
bool IsLocked(uint64_t page) {
  return SystemCall(SYS_madvise, page, kPageBytes, MADV_COLD) == -EINVAL;
}

// Parts that threads share: small ones, because the caller waits for the last one. But pages are
// made and freed in whole huge pages: a second thread would clear the same one, or split it.
constexpr uint64_t kCopiedPart = 256 << 10;
constexpr uint64_t kReturnedPart = kHugeBytes;
constexpr uint64_t kFreedPart = kHugeBytes;
// With less in a chunk, a copy thread would wake for nothing.
constexpr uint64_t kSharedBytes = 1 << 20;
// With less in a chunk, its pages are written to the file: that takes fewer system calls.
constexpr uint64_t kFilledBytes = 128 << 10;

void Unmap(uint64_t start, uint64_t length) {
  if (length != 0) SystemCall(SYS_munmap, start, length);
}

/// Maps `length` bytes without access at the same offset in a huge page as `pages`: then a move of
/// pages takes whole page tables, and not one page after the other. Returns an address or a
/// negative errno.
int64_t MapAlike(AddressRange pages, uint64_t length) {
  const uint64_t spare = length >= kHugeBytes ? kHugeBytes : 0;
  const int64_t area = SystemCall(SYS_mmap, 0, length + spare, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (IsError(area) || spare == 0) return area;
  const uint64_t start = static_cast<uint64_t>(area);
  const uint64_t below = (pages.start - start) % kHugeBytes;
  Unmap(start, below);
  Unmap(start + below + length, spare - below);
  return static_cast<int64_t>(start + below);
}

/// Gives the pages of a private mapping back to the kernel.
void FreePages(CopyThreads* copy_threads, AddressRange pages) {
  (void)ForEachPart(copy_threads, pages, kFreedPart, [](AddressRange part) {
    SystemCall(SYS_madvise, part.start, LengthOf(part), MADV_DONTNEED);
    return int64_t{0};
  });
}

}  // namespace

// ---- Threads that sleep on a futex in the pages ----

namespace {

/// The word that they sleep on meanwhile.
uint32_t waiting_room = 0;

/// Has who sleeps on a word of `chunk` sleep in the waiting room.
void HoldWaiters(std::span<const uint64_t> futexes, AddressRange chunk) {
  for (const uint64_t word : futexes) {
    if (!chunk.Contains(word)) continue;
    SystemCall(SYS_futex, word, FUTEX_REQUEUE, 0, INT_MAX, &waiting_room, 0);
  }
}

/// They look at their words again, and sleep on what lies there now.
void WakeWaiters(std::span<const uint64_t> futexes) {
  if (!futexes.empty()) SystemCall(SYS_futex, &waiting_room, FUTEX_WAKE, INT_MAX, 0, 0, 0);
}

}  // namespace

// ---- A memfd's pages become private ----

namespace {

/// One remap back: its steps, in order. Makes raw system calls only and writes nothing but this
/// stack.
class Return {
 public:
  /// `kept`: where the private mapping of `vma` is, or 0.
  Return(const OtherThreads& others, const Vma& vma, int64_t memfd, uint64_t kept)
      : others_(others), vma_(vma), file_pages_(memfd), kept_(kept) {}

  int64_t Run() {
    place_ = kept_;
    if (kept_ == 0) {
      const int64_t place = SystemCall(SYS_mmap, 0, LengthOf(vma_.range()), kReadWrite,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (IsError(place)) return place;
      place_ = static_cast<uint64_t>(place);
    }
    const bool has_own_place = kept_ == 0;
    int64_t result = 0;
    chunk_.end = vma_.start;
    while (chunk_.end < vma_.end) {
      chunk_ = FirstChunk({chunk_.end, vma_.end});
      result = FillAndMove();
      if (result != 0) break;
    }
    if (result != 0 && has_own_place) Unmap(Place(), vma_.end - chunk_.start);
    return result;
  }

  uint64_t kept() const { return kept_; }

 private:
  int64_t FillAndMove() {
    if (kept_ != 0) {
      const int64_t result = SystemCall(SYS_mprotect, Place(), Length(), kReadWrite);
      if (result != 0) return result;
    }
    CopyPolicy(chunk_.start, {Place(), Place() + Length()});
    HoldWaiters(others_.futexes, chunk_);
    WriteProtection protection;
    int64_t result = 0;
    if (others_.support != nullptr) {
      result = protection.Begin(*others_.support, chunk_, ProtectionOf(vma_));
    }
    if (result == 0) result = Fill();
    if (result == 0) result = Move();
    protection.End(result == 0);
    WakeWaiters(others_.futexes);
    if (result == 0 && is_locked_) SystemCall(SYS_mlock, chunk_.start, Length());
    return result;
  }

  int64_t Fill() {
    is_locked_ = IsLocked(chunk_.start);
    if (!vma_.readable) return FillByMemory();
    file_pages_.Find(FileOffset(), chunk_, used_);
    CopyThreads* const copy_threads = used_.bytes() < kSharedBytes ? nullptr : others_.copy_threads;
    return ForEachPart(copy_threads, chunk_, kReturnedPart, [this](AddressRange part) {
      return used_.ForEachRunIn(part, [this](AddressRange run) {
        CopyUsedPages(Place() + (run.start - chunk_.start), run.start, LengthOf(run));
        return int64_t{0};
      });
    });
  }

  /// Pages without access can be read only by the file of the process's memory, while other threads
  /// rely on their being without access.
  int64_t FillByMemory() {
    const int64_t fd = OpenProcessFile(ProcessFile::kMemory);
    if (fd < 0) return fd;
    int64_t result = 0;
    for (uint64_t done = 0; done < Length() && result >= 0;) {
      result = SystemCall(SYS_pread64, fd, Place() + done, Length() - done, chunk_.start + done);
      if (result == 0) result = -EIO;
      if (result > 0) done += static_cast<uint64_t>(result);
    }
    return result < 0 ? result : 0;
  }

  int64_t Move() {
    const int protection = ProtectionOf(vma_);
    if (protection != kReadWrite) {
      const int64_t result = SystemCall(SYS_mprotect, Place(), Length(), protection);
      if (result != 0) return result;
    }
    // Other pages of the kept mapping may still be wanted, and no other mapping may come between.
    // When the kernel has no memory for that, it has unmapped the segment's pages nevertheless.
    if (kept_ != 0 && MoveTo(MREMAP_DONTUNMAP) == 0) {
      SystemCall(SYS_mprotect, Place(), Length(), PROT_NONE);
      return 0;
    }
    const int64_t result = MoveTo(0);
    if (result == 0) kept_ = 0;
    return result;
  }

  int64_t MoveTo(int flags) {
    const int64_t result = SystemCall(SYS_mremap, Place(), Length(), Length(),
                                      MREMAP_MAYMOVE | MREMAP_FIXED | flags, chunk_.start);
    return IsError(result) ? result : 0;
  }

  uint64_t Length() const { return LengthOf(chunk_); }
  uint64_t FileOffset() const { return vma_.file_offset + (chunk_.start - vma_.start); }
  /// Where the private pages of the chunk are made.
  uint64_t Place() const { return place_ + (chunk_.start - vma_.start); }

  const OtherThreads& others_;
  const Vma& vma_;
  FilePages file_pages_;
  UsedPages used_;
  uint64_t kept_;
  uint64_t place_ = 0;
  AddressRange chunk_ = {0, 0};
  bool is_locked_ = false;
};

}  // namespace

// ---- Private pages become a memfd's ----

namespace {

/// One remap, under the same rules.
class Remap {
 public:
  Remap(const OtherThreads& others, const RemapRequest& request, int64_t page_map)
      : others_(others), request_(request), page_map_(page_map) {}

  int64_t Run() {
    int64_t result = Prepare();
    chunk_ = {request_.pages.start, request_.pages.start};
    while (result == 0 && chunk_.end < request_.pages.end) {
      chunk_ = FirstChunk({chunk_.end, request_.pages.end});
      result = RemapChunk();
      // Pages that are shared with a fork child look as if they were pinned.
      if (result == -EBUSY && Unshare() == 0) result = RemapChunk();
    }
    if (result != 0) Undo();
    Unmap(filled_.start, LengthOf(filled_));
    if (scratch_ != 0) Unmap(scratch_, ScratchBytes());
    return result;
  }

  uint64_t kept() const { return place_; }
  bool stays() const { return stays_; }

 private:
  int64_t Prepare() {
    is_locked_ = IsLocked(request_.pages.start);
    CopyPolicyToFile(request_.pages.start, request_.memfd, LengthOf(request_.pages));
    if (request_.keep) {
      const int64_t place = MapAlike(request_.pages, LengthOf(request_.pages));
      if (!IsError(place)) place_ = static_cast<uint64_t>(place);
    }
    return request_.checks_pins ? MapScratch() : 0;
  }

  /// Whether the chunk's pages come into the file by userfaultfd. For a short region the system
  /// calls cost more than it saves.
  bool MayFill() const {
    return others_.support != nullptr && others_.support->origin != FaultSupport::Origin::kSignal &&
           LengthOf(request_.pages) > kShortBytes && used_bytes_ >= kFilledBytes;
  }

  /// Maps the file elsewhere, from the chunk's offset on. Without access and unlocked first, as in
  /// MapScratch().
  bool MapFilled() {
    if (filled_.end != 0) return true;
    const AddressRange rest{chunk_.start, request_.pages.end};
    const uint64_t length = LengthOf(rest);
    const int64_t place = MapAlike(rest, length);
    if (IsError(place)) return false;
    int64_t result = SystemCall(SYS_mmap, place, length, PROT_NONE, MAP_SHARED | MAP_FIXED,
                                request_.memfd, FileOffset(Source().start));
    if (!IsError(result)) result = SystemCall(SYS_munlock, place, length);
    if (!IsError(result)) result = SystemCall(SYS_mprotect, place, length, request_.protection);
    if (IsError(result)) {
      Unmap(static_cast<uint64_t>(place), length);
      return false;
    }
    filled_ = {static_cast<uint64_t>(place), static_cast<uint64_t>(place) + length};
    return true;
  }

  /// After mlockall(2) a new mapping is locked and gets pages, if it has access.
  int64_t MapScratch() {
    const int64_t scratch = MapAlike(request_.pages, ScratchBytes());
    if (IsError(scratch)) return scratch;
    scratch_ = static_cast<uint64_t>(scratch);
    SystemCall(SYS_munlock, scratch_, ScratchBytes());
    return SystemCall(SYS_mprotect, scratch_, ScratchBytes(), request_.protection);
  }

  int64_t RemapChunk() {
    HoldWaiters(others_.futexes, chunk_);
    WriteProtection protection;
    int64_t result = Hold(protection);
    if (result == 0) {
      used_.FindTouched(request_.is_private ? page_map_ : -1, Source());
      used_bytes_ = used_.bytes();
      is_filled_ = MayFill() && MapFilled() && FillChunk(protection);
      if (!is_filled_) result = CopyOut();
      if (result == 0) result = Exchange(protection);
      if (result != 0 && scratch_ != 0) protection.MoveBack(Scratch());
    }
    protection.End(result == 0);
    WakeWaiters(others_.futexes);
    if (is_locked_) SystemCall(SYS_mlock, chunk_.start, Length());
    if (result != 0) return result;
    if (filled_.end != 0) DropFilled();
    if (scratch_ != 0) FreePages(SharingThreads(), Source());
    EmptyKept();
    Populate();
    return 0;
  }

  /// From here on writers wait. Locked pages are unlocked before: a move takes pages of mappings
  /// that are both locked or both not, and the kernel would unlock all of the mapping that they are
  /// a part of (Linux 6.18).
  int64_t Hold(WriteProtection& protection) {
    if (is_locked_) SystemCall(SYS_munlock, chunk_.start, Length());
    if (scratch_ != 0) {
      return protection.BeginByMoving(*others_.support, page_map_, chunk_, Scratch());
    }
    if (others_.support == nullptr) return 0;
    return protection.Begin(*others_.support, chunk_, request_.protection);
  }

  /// Copies the used pages to the second mapping of the file. False: they are to be written.
  bool FillChunk(WriteProtection& protection) {
    const AddressRange target{filled_.start, filled_.start + Length()};
    if (protection.BeginFill(target) != 0) return false;
    const uint64_t to = target.start - Source().start;
    const auto fill = [&](AddressRange part) {
      return used_.ForEachRunIn(part, [&protection, to](AddressRange run) {
        return protection.Fill(to + run.start, run.start, LengthOf(run));
      });
    };
    const int64_t result = ForEachPart(SharingThreads(), Source(), kCopiedPart, fill);
    return protection.EndFill(target) == 0 && result == 0;
  }

  int64_t CopyOut() {
    if (!AllowsFileOf(LengthOf(request_.pages))) return CopyOutByMapping();
    return used_.ForEachRun([this](AddressRange run) {
      for (uint64_t at = run.start; at < run.end;) {
        const int64_t written =
            SystemCall(SYS_pwrite64, request_.memfd, at, run.end - at, FileOffset(at));
        if (written <= 0) return written == 0 ? int64_t{-EIO} : written;
        at += static_cast<uint64_t>(written);
      }
      return int64_t{0};
    });
  }

  /// Costs a fault for each page.
  int64_t CopyOutByMapping() {
    const int64_t place = SystemCall(SYS_mmap, 0, Length(), kReadWrite, MAP_SHARED, request_.memfd,
                                     FileOffset(Source().start));
    if (IsError(place)) return place;
    const uint64_t to = static_cast<uint64_t>(place) - Source().start;
    const int64_t result = used_.ForEachRun([to](AddressRange run) {
      CopyUsedPages(to + run.start, run.start, LengthOf(run));
      return int64_t{0};
    });
    Unmap(static_cast<uint64_t>(place), Length());
    return result;
  }

  /// Moves the mapping away, which leaves an empty one, on which threads wait until the memfd is
  /// mapped there.
  int64_t Exchange(WriteProtection& protection) {
    const bool can_move =
        others_.support == nullptr || scratch_ != 0 || protection.HoldAbsent() == 0;
    const bool is_kept = place_ != 0 && can_move && MoveAway();
    if (place_ != 0 && !is_kept) KeepNothing();
    const int64_t result = MapFile();
    if (!IsError(result)) return 0;
    // Where the pages were moved before, the mapping that stayed at their place gets them back.
    if (is_kept && scratch_ == 0) MoveHome();
    return result;
  }

  /// Puts the file's pages in the place of the chunk: with their page tables, where they were
  /// filled.
  int64_t MapFile() {
    if (is_filled_) {
      is_filled_ = !IsError(SystemCall(SYS_mremap, filled_.start, Length(), Length(),
                                       MREMAP_MAYMOVE | MREMAP_FIXED, chunk_.start));
      if (is_filled_) return 0;
    }
    return SystemCall(SYS_mmap, chunk_.start, Length(), request_.protection, MAP_SHARED | MAP_FIXED,
                      request_.memfd, FileOffset(Source().start));
  }

  /// The part of the second mapping that the chunk is done with: it was moved, or is needed no
  /// more.
  void DropFilled() {
    if (!is_filled_) Unmap(filled_.start, Length());
    filled_.start += Length();
  }

  /// One fault per page at later first writes would cost twice as much (0.13 against 0.28 ms/MB). A
  /// short region gets all its pages now, at the program's charge.
  void Populate() {
    if (LengthOf(request_.pages) <= kShortBytes) {
      SystemCall(SYS_madvise, chunk_.start, Length(), MADV_POPULATE_READ);
      return;
    }
    if (is_filled_) return;  // They have come with their page tables.
    const uint64_t to = chunk_.start - Source().start;
    (void)used_.ForEachRun([to](AddressRange run) {
      SystemCall(SYS_madvise, to + run.start, LengthOf(run), MADV_POPULATE_READ);
      return int64_t{0};
    });
  }

  bool MoveAway() {
    return !IsError(SystemCall(SYS_mremap, chunk_.start, Length(), Length(),
                               MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, Kept()));
  }

  void MoveHome() {
    constexpr int kFlags = MREMAP_MAYMOVE | MREMAP_FIXED;
    if (!IsError(SystemCall(SYS_mremap, Kept(), Length(), Length(), kFlags | MREMAP_DONTUNMAP,
                            chunk_.start))) {
      return;
    }
    SystemCall(SYS_mremap, Kept(), Length(), Length(), kFlags, chunk_.start);
    KeepNothing();
  }

  /// After a move another thread's mapping may be where the chunk was to be kept.
  void KeepNothing() {
    Unmap(place_, chunk_.start - request_.pages.start);
    Unmap(Kept() + Length(), request_.pages.end - chunk_.end);
    place_ = 0;
  }

  /// Drops the kept mapping's pages: the segment has the contents now, and also their lock. Without
  /// access, because mlockall(2) would bring in pages again.
  void EmptyKept() {
    if (place_ == 0) return;
    // Where the pages were moved before, it has none.
    FreePages(scratch_ == 0 ? SharingThreads() : nullptr, {Kept(), Kept() + Length()});
    SystemCall(SYS_mprotect, Kept(), Length(), PROT_NONE);
  }

  /// Writes to each used page without a change: a process that shares a page with a fork child gets
  /// a copy, if the page is not pinned. By a system call, because the program may unmap the page.
  int64_t Unshare() {
    used_.FindTouched(page_map_, chunk_);
    return used_.ForEachRun([](AddressRange run) {
      constexpr uint32_t kOrNothing = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_LT, 0);
      uint32_t word = 0;
      for (uint64_t page = run.start; page < run.end; page += kPageBytes) {
        const int64_t result =
            SystemCall(SYS_futex, &word, FUTEX_WAKE_OP_PRIVATE, 0, 0, page, kOrNothing);
        if (result < 0) return result;
      }
      return int64_t{0};
    });
  }

  /// Makes the chunks before this one private again.
  void Undo() {
    const AddressRange done{request_.pages.start, chunk_.start};
    if (done.start < done.end) {
      const Vma vma{.start = done.start,
                    .end = done.end,
                    .file_offset = 0,
                    .device = 0,
                    .inode = 0,
                    .readable = (request_.protection & PROT_READ) != 0,
                    .writable = (request_.protection & PROT_WRITE) != 0,
                    .executable = (request_.protection & PROT_EXEC) != 0,
                    .shared = true,
                    .kind = VmaKind::kSegment};
      Return back(others_, vma, request_.memfd, place_);
      stays_ = back.Run() != 0;
      if (back.kept() == 0) place_ = 0;
    }
    if (place_ != 0) Unmap(place_, LengthOf(request_.pages));
    place_ = 0;
  }

  uint64_t Length() const { return LengthOf(chunk_); }
  /// Where the pages of the chunk are while writers wait.
  AddressRange Source() const {
    return scratch_ == 0 ? chunk_ : AddressRange{Scratch(), Scratch() + Length()};
  }
  /// Of an address in Source().
  uint64_t FileOffset(uint64_t address) const {
    return address - Source().start + (chunk_.start - request_.pages.start);
  }
  CopyThreads* SharingThreads() const {
    return used_bytes_ < kSharedBytes ? nullptr : others_.copy_threads;
  }
  uint64_t Kept() const { return place_ + (chunk_.start - request_.pages.start); }
  uint64_t ScratchBytes() const {
    const uint64_t length = LengthOf(request_.pages);
    return length < kHugeBytes ? length : kChunkBytes + kHugeBytes;
  }
  /// At the chunk's offset in a huge page.
  uint64_t Scratch() const { return scratch_ + (chunk_.start - request_.pages.start) % kHugeBytes; }

  const OtherThreads& others_;
  const RemapRequest& request_;
  int64_t page_map_;
  UsedPages used_;
  uint64_t used_bytes_ = 0;
  AddressRange chunk_ = {0, 0};
  uint64_t place_ = 0;    // where the private mapping is kept
  uint64_t scratch_ = 0;  // where its pages are moved to
  AddressRange filled_ = {0,
                          0};  // a second mapping of the file, from the chunk's place on; or none
  bool is_filled_ = false;     // the chunk's pages are there
  bool is_locked_ = false;
  bool stays_ = false;
};

struct RemapCall {
  const OtherThreads* others;
  const RemapRequest* request;
  int64_t page_map;
  RemapResult made;
  int64_t result;
};

void RunRemap(void* argument) {
  auto* call = static_cast<RemapCall*>(argument);
  Remap remap(*call->others, *call->request, call->page_map);
  const int64_t result = remap.Run();
  call->result = result;
  call->made = {.kept = remap.kept(), .stays = remap.stays()};
}

struct ReturnCall {
  const OtherThreads* others;
  const Vma* vma;
  int64_t memfd;
  uint64_t kept;
  int64_t result;
};

void RunReturn(void* argument) {
  auto* call = static_cast<ReturnCall*>(argument);
  const Vma vma = *call->vma;
  Return way(*call->others, vma, call->memfd, call->kept);
  const int64_t result = way.Run();
  call->result = result;
  call->kept = way.kept();
}

}  // namespace

int RemapPages(const OtherThreads& others, const RemapRequest& request, RemapResult& result) {
  result = {.kept = 0, .stays = false};
  if (RemapStack().Meets(request.pages)) return ENOMEM;
  RemapCall call{.others = &others,
                 .request = &request,
                 .page_map = OpenProcessFile(ProcessFile::kPageMap),
                 .made = {},
                 .result = -EFAULT};
  if (!RunOnRemapStack(RunRemap, &call)) return ENOMEM;
  result = call.made;
  return static_cast<int>(-call.result);
}

int RemapBack(const OtherThreads& others, const Vma& vma, int64_t memfd, uint64_t& kept) {
  ReturnCall call{.others = &others, .vma = &vma, .memfd = memfd, .kept = kept, .result = -EFAULT};
  if (!RunOnRemapStack(RunReturn, &call)) return ENOMEM;
  kept = call.kept;
  return static_cast<int>(-call.result);
}

}  // namespace uroce::memory
