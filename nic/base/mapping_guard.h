// SPDX-License-Identifier: Apache-2.0
// What keeps the daemon alive when a program or a peer shrinks a file, empties a file system, or
// takes huge pages away under a mapping that both share: the access raises SIGBUS, and the mapping
// becomes one of zeros.
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
#include "nic/base/fd.h"

namespace uroce {

/// The table of guarded mappings, which a handler of SIGBUS searches. Bounded, so that the kernel's
/// bound on mappings (vm.max_map_count) never stops the daemon's own. Add, Remove, NoteLost and
/// TakeStruck: any thread. A mapping is removed when no worker reads it any more, as it is
/// unmapped.
class MappingGuard {
 public:
  /// Room for `capacity` mappings.
  explicit MappingGuard(uint32_t capacity);
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;

  /// The process's own: signal handlers are the process's. The first call installs the handler.
  static MappingGuard& Get();

  uint32_t capacity() const { return capacity_; }

  /// An owner that is no program.
  static constexpr uint32_t kNobody = 0;

  /// Guards [start, start + length) for `owner`, who is named when it is struck. Whole pages of its
  /// file system. Nothing when the table is full.
  std::optional<uint32_t> Add(const void* start, size_t length, uint32_t owner);
  void Remove(uint32_t slot);

  /// Puts pages of zeros over the mapping that holds `address`; false when none does.
  /// Async-signal-safe.
  bool Strike(const void* address);

  /// Has `owner` named as one that is struck: its memory is gone without a mapping.
  void NoteLost(uint32_t owner);

  /// Readable after a strike.
  int event_fd() const { return event_.get(); }
  /// The owners of what was struck since the last call, each once.
  std::vector<uint32_t> TakeStruck();

 private:
  struct Slot {
    std::atomic<uintptr_t> start{0};  ///< 0: free. Written last, and cleared first.
    std::atomic<size_t> length{0};
    std::atomic<uint32_t> owner{0};
    std::atomic<bool> struck{false};
  };

  void NoteIfStruck(Slot& slot);
  void Signal();

  const uint32_t capacity_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<uint32_t> used_{0};  ///< Slots that were ever taken.
  Fd event_;
  std::mutex mutex_;
  std::vector<uint32_t> free_;  ///< Below `used_`.
  std::vector<uint32_t> struck_owners_;
};

/// A mapping under the process's guard.
class GuardedMapping {
 public:
  GuardedMapping() = default;
  /// Errors: ResourceExhausted; `mapping` stays the caller's then.
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
