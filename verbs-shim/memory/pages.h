// SPDX-License-Identifier: Apache-2.0
// The contents of pages: which pages of a range have any, and copies of them, without libc.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/maps.h"

namespace uroce::memory {

// ---- Copying without libc ----

/// Not memcpy: under a sanitizer the program has its own memcpy, which rejects freed memory.
inline void CopyBytes(uint64_t to, uint64_t from, uint64_t length) {
#if defined(__x86_64__)
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
#else
  const auto move = [&]<typename Word>(Word) {
    for (; length >= sizeof(Word); length -= sizeof(Word)) {
      *reinterpret_cast<volatile Word*>(to) = *reinterpret_cast<const volatile Word*>(from);
      to += sizeof(Word);
      from += sizeof(Word);
    }
  };
  move(uint64_t{});
  move(uint8_t{});
#endif
}

inline bool IsZeroPage(uint64_t page) {
  const auto* words = reinterpret_cast<const uint64_t*>(page);
  constexpr uint64_t kWords = kPageBytes / sizeof(uint64_t);
  for (uint64_t i = 0; i < kWords; i += 8) {
    uint64_t any = 0;
    for (uint64_t j = 0; j < 8; ++j) any |= words[i + j];
    if (any != 0) return false;
  }
  return true;
}

/// Copies whole pages to memory that was never touched. Pages of zeros are skipped, and use no
/// memory. Raw system calls only.
void CopyUsedPages(uint64_t to, uint64_t from, uint64_t length);

/// Writes zeros to whole pages. Pages of zeros are skipped.
inline void ClearUsedPages(uint64_t to, uint64_t length) {
  for (uint64_t page = to; page < to + length; page += kPageBytes) {
    if (IsZeroPage(page)) continue;
    auto* words = reinterpret_cast<volatile uint64_t*>(page);
    for (uint64_t i = 0; i < kPageBytes / sizeof(uint64_t); ++i) words[i] = 0;
  }
}

/// Maps shared pages a second time, for reading and writing. Returns their address there, which the
/// caller unmaps, or a negative errno.
int64_t MapAgain(AddressRange pages);

// ---- Pages without contents ----

/// Pages are exchanged in chunks, so that the exchange needs little memory besides, and so that
/// writers wait for one chunk alone. All but the last end at a multiple of its size, and so divide
/// no huge page.
inline constexpr uint64_t kChunkBytes = 4 << 20;
constexpr AddressRange FirstChunk(AddressRange pages) {
  if (pages.end - pages.start <= kChunkBytes) return pages;
  return {pages.start, (pages.start / kChunkBytes + 1) * kChunkBytes};
}

/// About how many bytes of `range` were ever touched, by a look at some pages in /proc/self/pagemap
/// (`page_map`). All, where it does not tell.
uint64_t TouchedBytes(int64_t page_map, AddressRange range);

/// The pages of one chunk that have contents. Makes raw system calls only and writes nothing but
/// itself and the stack.
class UsedPages {
 public:
  /// Finds the pages of private anonymous memory that were ever touched, as /proc/self/pagemap
  /// (`page_map`, an fd or a negative errno) tells. Where it does not tell, all pages count as
  /// used.
  void FindTouched(int64_t page_map, AddressRange chunk);
  /// Finds the pages that have an entry in the page tables, and reads none of them.
  void FindMapped(int64_t page_map, AddressRange chunk);

  /// Begins with no used page in `chunk`.
  void Clear(AddressRange chunk);
  /// Adds the pages of `range`, a part of the chunk.
  void Add(AddressRange range);

  uint64_t bytes() const {
    uint64_t sum = 0;
    (void)ForEachRun([&sum](AddressRange run) {
      sum += run.end - run.start;
      return int64_t{0};
    });
    return sum;
  }

  /// Calls `visit(run)` for each run of used pages, in rising addresses, until one returns another
  /// value than 0. Returns this value, or 0.
  template <typename Visit>
  int64_t ForEachRun(Visit&& visit) const {
    return ForEachRunIn(chunk_, visit);
  }
  /// The same for the pages of `part`, a part of the chunk.
  template <typename Visit>
  int64_t ForEachRunIn(AddressRange part, Visit&& visit) const {
    const uint64_t pages = (part.end - chunk_.start) / kPageBytes;
    for (uint64_t page = (part.start - chunk_.start) / kPageBytes; page < pages; ++page) {
      if (!IsUsed(page)) continue;
      const uint64_t first = page;
      while (page < pages && IsUsed(page)) ++page;
      const int64_t result =
          visit(AddressRange{chunk_.start + first * kPageBytes, chunk_.start + page * kPageBytes});
      if (result != 0) return result;
    }
    return 0;
  }

 private:
  static constexpr uint64_t kPages = kChunkBytes / kPageBytes;

  template <typename IsUsedEntry>
  void Find(int64_t page_map, AddressRange chunk, IsUsedEntry&& is_used);
  bool IsUsed(uint64_t page) const { return (bits_[page / 64] >> page % 64 & 1) != 0; }

  AddressRange chunk_ = {0, 0};
  uint64_t bits_[kPages / 64];
};

/// The pages of a memfd that its holes leave. Raw system calls only.
class FilePages {
 public:
  /// `file`: the memfd; with a negative number its holes are not known, and reading them brings in
  /// pages.
  explicit FilePages(int64_t file) : file_(file) {}

  /// Copies the pages from offset `from` of the file on, `length` bytes that are mapped at
  /// `mapped`, to memory at `to` that was never touched. Offsets rise from call to call.
  void Copy(uint64_t from, uint64_t mapped, uint64_t length, uint64_t to);
  /// Adds these pages to `used`, whose chunk is mapped from offset `from` on, under the same rules.
  void Find(uint64_t from, AddressRange chunk, UsedPages& used);
  /// Writes zeros to these pages, under the same rules.
  void Clear(uint64_t from, uint64_t mapped, uint64_t length);

 private:
  /// Calls `visit(offset, bytes)` for the pages of the file, `offset` being counted from `from`.
  template <typename Visit>
  void ForEachRun(uint64_t from, uint64_t length, Visit&& visit);
  /// Finds the next run of pages at or after `offset`; of one at or after `limit` only its start.
  /// False: the kernel does not tell.
  bool FindRun(uint64_t offset, uint64_t limit);

  int64_t file_;
  // Offsets of pages that are there, which is all that holds for a later call: a hole may have got
  // a page since. The search for a run's end takes time in proportion to its length.
  AddressRange run_ = {0, 0};
};

}  // namespace uroce::memory
