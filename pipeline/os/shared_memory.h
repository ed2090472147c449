// SPDX-License-Identifier: Apache-2.0
// Memory shared with other processes: sealed files that only the daemon makes, and a guard that
// keeps the daemon alive when a file of another process shrinks under its mapping.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/os/fd.h"

namespace uroce {

/// Makes a sparse memfd of `length` bytes, sealed against any change of its size: no program can
/// shrink it under a mapping.
absl::StatusOr<Fd> MakeSharedFile(const char* name, uint64_t length);
/// Makes the kernel refuse to free pages of such a file (fallocate, MADV_REMOVE) before it takes
/// any lock: threads that touch pages which a program is freeing wait for it, for seconds if it has
/// mapped them often enough. Needs CAP_LINUX_IMMUTABLE and Linux 6.0, and does nothing without.
void KeepPages(int fd);
/// Maps the first `length` bytes for reading and writing. No page is touched.
absl::StatusOr<Mapping> MapShared(int fd, uint64_t length);
/// Makes a memfd with these bytes, sealed against every change.
absl::StatusOr<Fd> MakeConstantFile(const char* name, const void* data, uint64_t length);

/// Whether the kernel grants no more memory than there is (vm.overcommit_memory=2). Then it may
/// refuse a page of a file at the access that needs it, by SIGBUS.
bool IsOvercommitStrict();

/// The status of a failed system call.
absl::Status SystemError(const char* what, int error);

/// Keeps the daemon alive when a program or a peer shrinks a file, empties a file system, or takes
/// huge pages away under a shared mapping: the access raises SIGBUS, and zeros replace what lies
/// there. A gigabyte of pages would take the thread that accesses it 60 ms, so only a piece of the
/// mapping is replaced at a time, as long as there are not too many pieces.
///
/// The table of guarded mappings, which a handler of SIGBUS searches. The table is bounded, so that
/// the kernel's limit on mappings (vm.max_map_count) never stops the daemon's own. Any thread calls
/// Add, Remove, NoteLost and TakeStruck. A mapping is removed when it is unmapped, after the last
/// worker has stopped reading it.
class MappingGuard {
 public:
  /// Room for `capacity` mappings. `reserve_pages` are pages for the moment at which the kernel
  /// grants no memory (vm.overcommit_memory=2): then it also has no page for a file, and raises
  /// SIGBUS. There are none where the kernel has no memory for them now.
  explicit MappingGuard(uint32_t capacity, uint32_t reserve_pages = 0);
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;

  /// The guard of this process. The first call installs the process's signal handler.
  static MappingGuard& Get();

  uint32_t capacity() const { return capacity_; }

  /// The owner of a mapping that belongs to no program.
  static constexpr uint32_t kNoOwner = 0;

  /// Guards [start, start + length) for `owner`, which TakeStruck names after a strike. The range
  /// has whole pages of its file system. Returns nothing when the table is full.
  std::optional<uint32_t> Add(const void* start, size_t length, uint32_t owner);
  void Remove(uint32_t slot);

  /// The mapping is replaced from its start on in pieces of so many bytes.
  static constexpr size_t kPieceBytes = 64 << 10;
  /// Pieces of one mapping, and of all: each may cost the process two mappings. A mapping that has
  /// as many is replaced as a whole.
  static constexpr uint32_t kMostPieces = 512;
  static constexpr uint32_t kMostPiecesOfAll = 1024;

  /// Puts pages of zeros over the piece that holds `address` of a guarded mapping; over the whole
  /// mapping where it has too many pieces or huge pages. False: no mapping holds the address.
  /// Async-signal-safe.
  bool Strike(const void* address);

  /// Makes TakeStruck name `owner`: its memory is gone, without a mapping of the daemon.
  void NoteLost(uint32_t owner);

  /// The fd is readable after a strike.
  int event_fd() const { return event_.get(); }
  /// Returns the owners of mappings struck since the last call, each once.
  std::vector<uint32_t> TakeStruck();

 private:
  struct Slot {
    std::atomic<uintptr_t> start{0};  ///< 0: free. Written last, and cleared first.
    std::atomic<size_t> length{0};
    std::atomic<uint32_t> owner{0};
    std::atomic<bool> struck{false};
    std::atomic<uint32_t> pieces{0};  ///< That were replaced.
  };

  /// Counts a piece of the slot's mapping. False: there are too many.
  bool TakePiece(Slot& slot);
  void MakeReserve(uint32_t pages);
  /// Puts a page of the reserve over the page of `address`, in the mapping of `slot`. One of a
  /// file, since a private one would need memory of the kernel. Async-signal-safe.
  bool PutReserve(const Slot& slot, uintptr_t address);
  void TakeBack(const Slot& slot);
  uint32_t reserve_pages() const { return static_cast<uint32_t>(reserve_.length() / kPageBytes); }
  uint32_t IndexOf(const Slot& slot) const { return static_cast<uint32_t>(&slot - slots_.get()); }
  void NoteIfStruck(Slot& slot);
  void Signal();

  const uint32_t capacity_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<uint32_t> used_{0};    ///< The number of slots that were ever taken.
  std::atomic<uint32_t> pieces_{0};  ///< Of all slots.
  Fd reserve_file_;
  Mapping reserve_;
  /// The index of the slot whose mapping has the page, plus 1; or 0.
  std::unique_ptr<std::atomic<uint32_t>[]> reserve_users_;
  Fd event_;
  std::mutex mutex_;
  std::vector<uint32_t> free_;  ///< Free slots below `used_`.
  std::vector<uint32_t> struck_owners_;
};

/// A mapping under the process's guard.
class GuardedMapping {
 public:
  GuardedMapping() = default;
  /// Errors: ResourceExhausted, when the table is full; the caller then keeps `mapping`.
  static absl::StatusOr<GuardedMapping> Make(Mapping&& mapping, uint32_t owner);
  GuardedMapping(GuardedMapping&& other) noexcept
      : mapping_(std::move(other.mapping_)), slot_(std::exchange(other.slot_, std::nullopt)) {}
  GuardedMapping& operator=(GuardedMapping&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~GuardedMapping() {
    if (slot_) MappingGuard::Get().Remove(*slot_);
  }

  uint8_t* data() const { return mapping_.data(); }
  size_t length() const { return mapping_.length(); }

 private:
  Mapping mapping_;
  std::optional<uint32_t> slot_;
};

}  // namespace uroce
