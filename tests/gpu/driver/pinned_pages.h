// SPDX-License-Identifier: Apache-2.0
// Pages of host memory that devices go on using, whatever the program maps at their addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace uroce::test_gpu {

/// Holds the pages that lie at a range now. Any thread.
///
/// Shared pages are mapped a second time. Private pages are pinned by io_uring, as a device's
/// driver pins them, on a ring that a process which has ended made: so the kernel counts them for
/// that process, and not in VmPin of this one. Where io_uring is missing, the addresses are used.
class PinnedPages {
 public:
  /// Null: the range is not mapped, or cannot be pinned.
  static std::shared_ptr<PinnedPages> Make(void* memory, size_t bytes);
  /// Has the kernel count later pins in VmPin: for processes without a device file, which could
  /// not be told from others. Called before the first range.
  static void Count();
  /// Whether private pages can be pinned here.
  static bool ArePinned();

  PinnedPages(const PinnedPages&) = delete;
  PinnedPages& operator=(const PinnedPages&) = delete;
  ~PinnedPages();

  /// The bytes at `offset` of the range, where the CPU can read and write them; null: by Read and
  /// Write alone.
  uint8_t* At(size_t offset) const { return mapped_ != nullptr ? mapped_ + offset : nullptr; }
  void Read(size_t offset, uint8_t* to, size_t bytes) const;
  void Write(size_t offset, const uint8_t* from, size_t bytes) const;

 private:
  PinnedPages(uint8_t* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}

  uint8_t* memory_;  // As registered.
  size_t bytes_;
  uint8_t* mapped_ = nullptr;  // The same bytes in a mapping that no program knows; or memory_.
  uint8_t* second_ = nullptr;  // That mapping, to be unmapped.
  size_t second_bytes_ = 0;
  int buffer_ = -1;  // The number at the ring.
};

}  // namespace uroce::test_gpu
