// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/pages.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {
namespace {

// An entry of /proc/self/pagemap (Documentation/admin-guide/mm/pagemap.rst of Linux).
constexpr uint64_t kPresent = uint64_t{1} << 63;
constexpr uint64_t kSwapped = uint64_t{1} << 62;

/// The kernel shows a page that is write-protected and was never touched as swapped, too.
bool HasContents(uint64_t entry, uint64_t page) {
  return (entry & kPresent) != 0 || ((entry & kSwapped) != 0 && !IsZeroPage(page));
}

// Of pages, to estimate how many of a long range were touched.
constexpr uint64_t kSampledPages = 64;
// Pages come in steps that the processor's cache holds: the kernel clears them, and the copy
// follows.
constexpr uint64_t kStepBytes = 128 << 10;
// A fault of each page costs no more than the system call.
constexpr uint64_t kFewBytes = 4 * kPageBytes;

}  // namespace

void CopyUsedPages(uint64_t to, uint64_t from, uint64_t length) {
  for (uint64_t at = 0; at < length;) {
    const uint64_t limit = length - at < kStepBytes ? length : at + kStepBytes;
    uint64_t end = at;
    while (end < limit && !IsZeroPage(from + end)) end += kPageBytes;
    const uint64_t bytes = end - at;
    // Where the kernel brings in none, the copy does, fault by fault.
    if (bytes > kFewBytes) SystemCall(SYS_madvise, to + at, bytes, MADV_POPULATE_WRITE);
    CopyBytes(to + at, from + at, bytes);
    at = end < limit ? end + kPageBytes : end;
  }
}

template <typename IsUsedEntry>
void UsedPages::Find(int64_t page_map, AddressRange chunk, IsUsedEntry&& is_used) {
  chunk_ = chunk;
  for (uint64_t& bits : bits_) bits = ~uint64_t{0};
  uint64_t entries[kPages];
  const uint64_t pages = (chunk.end - chunk.start) / kPageBytes;
  const auto bytes = static_cast<int64_t>(pages * sizeof(entries[0]));
  const uint64_t offset = chunk.start / kPageBytes * sizeof(entries[0]);
  if (page_map < 0 || SystemCall(SYS_pread64, page_map, entries, bytes, offset) != bytes) return;
  for (uint64_t page = 0; page < pages; ++page) {
    if (is_used(entries[page], chunk.start + page * kPageBytes)) continue;
    bits_[page / 64] &= ~(uint64_t{1} << page % 64);
  }
}

uint64_t TouchedBytes(int64_t page_map, AddressRange range) {
  const uint64_t step = (range.end - range.start) / kSampledPages;
  uint64_t touched = 0;
  for (uint64_t look = 0; look < kSampledPages; ++look) {
    const uint64_t page = range.start + look * step;
    uint64_t entry = 0;
    const int64_t bytes =
        SystemCall(SYS_pread64, page_map, &entry, sizeof(entry), page / kPageBytes * sizeof(entry));
    const bool is_known = bytes == static_cast<int64_t>(sizeof(entry));
    if (!is_known || (entry & (kPresent | kSwapped)) != 0) touched += step;
  }
  return touched;
}

void UsedPages::FindTouched(int64_t page_map, AddressRange chunk) {
  Find(page_map, chunk, HasContents);
}

void UsedPages::FindMapped(int64_t page_map, AddressRange chunk) {
  Find(page_map, chunk,
       [](uint64_t entry, uint64_t) { return (entry & (kPresent | kSwapped)) != 0; });
}

void UsedPages::Clear(AddressRange chunk) {
  chunk_ = chunk;
  for (uint64_t& bits : bits_) bits = 0;
}

void UsedPages::Add(AddressRange range) {
  for (uint64_t at = range.start; at < range.end; at += kPageBytes) {
    const uint64_t page = (at - chunk_.start) / kPageBytes;
    bits_[page / 64] |= uint64_t{1} << page % 64;
  }
}

bool FilePages::FindRun(uint64_t offset, uint64_t limit) {
  const int64_t data = SystemCall(SYS_lseek, file_, offset, SEEK_DATA);
  if (data == -ENXIO) {  // There is none up to the file's end.
    run_ = {UINT64_MAX, UINT64_MAX};
    return true;
  }
  const bool is_behind = data >= 0 && static_cast<uint64_t>(data) >= limit;
  const int64_t hole = data < 0 || is_behind ? data : SystemCall(SYS_lseek, file_, data, SEEK_HOLE);
  if (hole < 0) return false;
  run_ = {static_cast<uint64_t>(data), static_cast<uint64_t>(hole)};
  return true;
}

template <typename Visit>
void FilePages::ForEachRun(uint64_t from, uint64_t length, Visit&& visit) {
  const uint64_t limit = from + length;
  for (uint64_t at = from; at < limit; at = run_.end) {
    if (!run_.Contains(at) && !FindRun(at, limit)) return visit(at - from, limit - at);
    if (run_.start >= limit) return;
    const uint64_t begin = run_.start > at ? run_.start : at;
    const uint64_t end = run_.end < limit ? run_.end : limit;
    visit(begin - from, end - begin);
  }
}

void FilePages::Copy(uint64_t from, uint64_t mapped, uint64_t length, uint64_t to) {
  ForEachRun(from, length, [mapped, to](uint64_t offset, uint64_t bytes) {
    CopyUsedPages(to + offset, mapped + offset, bytes);
  });
}

void FilePages::Find(uint64_t from, AddressRange chunk, UsedPages& used) {
  used.Clear(chunk);
  ForEachRun(from, chunk.end - chunk.start, [chunk, &used](uint64_t offset, uint64_t bytes) {
    used.Add({chunk.start + offset, chunk.start + offset + bytes});
  });
}

void FilePages::Clear(uint64_t from, uint64_t mapped, uint64_t length) {
  ForEachRun(from, length,
             [mapped](uint64_t offset, uint64_t bytes) { ClearUsedPages(mapped + offset, bytes); });
}

int64_t MapAgain(AddressRange pages) {
  const uint64_t length = pages.end - pages.start;
  const int64_t again = SystemCall(SYS_mremap, pages.start, 0, length, MREMAP_MAYMOVE);
  if (IsError(again)) return again;
  const int64_t error = SystemCall(SYS_mprotect, again, length, PROT_READ | PROT_WRITE);
  if (error == 0) return again;
  SystemCall(SYS_munmap, again, length);
  return error;
}

}  // namespace uroce::memory
