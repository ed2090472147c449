// SPDX-License-Identifier: Apache-2.0
// The process's mappings, as /proc/self/maps tells them.
#pragma once

#include <cstdint>
#include <string_view>

#include "verbs-shim/memory/mapped_array.h"

namespace uroce::memory {

inline constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t PageDown(uint64_t address) { return address & ~(kPageBytes - 1); }
constexpr uint64_t PageUp(uint64_t address) { return PageDown(address + kPageBytes - 1); }

/// Addresses [start, end).
struct AddressRange {
  uint64_t start;
  uint64_t end;
  constexpr bool Contains(uint64_t address) const { return start <= address && address < end; }
  constexpr bool Meets(AddressRange other) const { return start < other.end && other.start < end; }
};

enum class VmaKind : uint8_t {
  kAnonymous,  // mmap, .bss, heaps of glibc's arenas, thread stacks
  kHeap,       // grown by brk
  kStack,      // of the main thread
  kSegment,    // a memfd that this library put there
  kShared,     // a shared mapping of any other file, memfd or shared memory
  kFile,       // a private mapping of a file, private hugetlb pages
  kSpecial,    // vvar, vsyscall: the kernel's own, unreadable to others
};

/// A device number, whatever its form was.
constexpr uint64_t MakeDevice(uint64_t major_number, uint64_t minor_number) {
  return major_number << 32 | minor_number;
}

/// One line of /proc/self/maps.
struct Vma {
  uint64_t start;
  uint64_t end;
  uint64_t file_offset;
  uint64_t device;  // of its file, as MakeDevice() has it
  uint64_t inode;
  bool readable;
  bool writable;
  bool executable;
  bool shared;
  VmaKind kind;

  constexpr AddressRange range() const { return {start, end}; }
};

/// PROT_* of a mapping.
int ProtectionOf(const Vma& vma);

/// What a mapping is, of which all but the kind is known, by its name.
VmaKind KindOf(const Vma& vma, std::string_view name);

/// Parses one line, without its line feed. False, and `vma` is undefined, for anything else.
[[nodiscard]] bool ParseMapsLine(std::string_view line, Vma& vma);

// Each appends mappings in rising addresses, and returns 0 or an errno. Not reentrant: the caller
// holds the lock of the registrations.

/// All mappings that meet `window`. Reads the text: 20 us in a small program, for all mappings up
/// to the window's end.
[[nodiscard]] int ReadMaps(AddressRange window, MappedArray<Vma>& vmas);
/// Counts all mappings of the process.
[[nodiscard]] int CountMaps(uint64_t& count);
/// Asks for each mapping of `region`, and of `window` around it as far as they join it without a
/// gap: below 1 us each, and the others cost nothing. Linux 6.11.
[[nodiscard]] int QueryMaps(AddressRange region, AddressRange window, MappedArray<Vma>& vmas);
/// Asks, or reads the window where the kernel does not answer. Clears `vmas` first.
[[nodiscard]] int FindMaps(AddressRange region, AddressRange window, MappedArray<Vma>& vmas);

}  // namespace uroce::memory
