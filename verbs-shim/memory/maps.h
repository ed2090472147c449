// SPDX-License-Identifier: Apache-2.0
// The process's mappings as the kernel tells them, and how many the shim may add.
#pragma once

#include <cstdint>
#include <string_view>

#include "verbs-shim/memory/mapped_array.h"

namespace uroce::memory {

// ---- Mappings ----

inline constexpr uint64_t kPageBytes = 4096;
inline constexpr uint64_t kHugeBytes = 2 << 20;
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

/// A device number, independent of the form in which the kernel gave it.
constexpr uint64_t MakeDevice(uint64_t major_number, uint64_t minor_number) {
  return major_number << 32 | minor_number;
}

/// One line of /proc/self/maps.
struct Vma {
  uint64_t start;
  uint64_t end;
  uint64_t file_offset;
  uint64_t device;  // of its file, in the form of MakeDevice()
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

/// The kind of a mapping, by its name; all else in `vma` is set already.
VmaKind KindOf(const Vma& vma, std::string_view name);

/// Parses one line, without its line feed. False for an invalid line; `vma` is then undefined.
[[nodiscard]] bool ParseMapsLine(std::string_view line, Vma& vma);

/// Appends the part of `vma` that lies at or above `address`, the end of the mapping before it. The
/// kernel returns one mapping after the other, and another thread may extend one between two
/// answers: after brk(2) the mapping at the heap's old end is the whole heap. False: no memory.
[[nodiscard]] bool AppendFrom(uint64_t address, Vma vma, MappedArray<Vma>& vmas);

// Each of these functions appends mappings in rising addresses, of which no two overlap, and
// returns 0 or an errno. They are not reentrant: the caller holds the lock of the registrations.

/// All mappings that overlap `window`. Reads the text of all mappings up to the window's end: 20 us
/// in a small program.
[[nodiscard]] int ReadMaps(AddressRange window, MappedArray<Vma>& vmas);
/// Counts all mappings of the process.
[[nodiscard]] int CountMaps(uint64_t& count);
/// Queries each mapping of `region`, and those of `window` that adjoin it without a gap. Each
/// mapping costs below 1 us, and the others cost nothing. Needs Linux 6.11.
[[nodiscard]] int QueryMaps(AddressRange region, AddressRange window, MappedArray<Vma>& vmas);
/// Clears `vmas`, and then calls QueryMaps, or ReadMaps where the kernel has no such query.
[[nodiscard]] int FindMaps(AddressRange region, AddressRange window, MappedArray<Vma>& vmas);

// ---- How many mappings the shim may add ----

/// A process may have at most vm.max_map_count mappings. At the limit the kernel also refuses the
/// program's next malloc or thread. So remaps stop while an eighth of the mappings is still free.
/// Of static storage; used under the lock of the registrations.
class MapBudget {
 public:
  /// Whether one more remap fits. Reads the kernel's files from time to time: once per thousand
  /// remaps in a program with few mappings.
  [[nodiscard]] bool Take();

  /// How many mappings we may add to a process that has `used` of `limit`, before the next count.
  /// Pure.
  static uint32_t Share(uint64_t used, uint64_t limit);

 private:
  uint32_t left_ = 0;  // remaps
  uint32_t refusals_ = 0;
};

}  // namespace uroce::memory
