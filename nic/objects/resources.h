// SPDX-License-Identifier: Apache-2.0
// What a program may hold: the accounts of its user, tables of handles with their limits, and the
// memory of its queues and doorbells (layout: uroce_arena.h).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nic/base/allocators.h"
#include "nic/base/user_limits.h"
#include "pipeline/datapath/queue/notification.h"
#include "pipeline/os/fd.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce {
class SideThread;
}

namespace uroce::datapath {
class SharedRate;
}

namespace uroce::nic {

enum class Kind : uint8_t;
struct Limits;

// ---- what all programs of a user hold ----

/// The resources of one user, and their limits. Control thread.
class UserAccount {
 public:
  UserAccount(uint32_t uid, const Limits& limits);
  ~UserAccount();
  UserAccount(const UserAccount&) = delete;
  UserAccount& operator=(const UserAccount&) = delete;

  /// Applies to what the user asks for from now on; what it holds stays. While all workers stand
  /// still.
  void SetLimits(const Limits& limits);

  Quota& of(Kind kind) { return kinds_[static_cast<size_t>(kind)]; }
  const Quota& of(Kind kind) const { return kinds_[static_cast<size_t>(kind)]; }

  datapath::WakePace wake_pace;
  /// What all queue pairs of the user send together. Sessions refer to it.
  const std::unique_ptr<datapath::SharedRate> rate;
  Quota sockets;      ///< For contexts, completion channels and files of rdma_cm; one fd each.
  Quota mappings;     ///< Segments, including removed ones that regions still use.
  Quota xrc_files;    ///< For domains that are being opened.
  Quota attachments;  ///< Queue pairs attached to multicast groups.
  Quota queue_bytes;  ///< Bytes taken in arenas.
  uint64_t memory_bytes = 0;
  /// Closes refused connections.
  const std::shared_ptr<SideThread> refusals_thread;

 private:
  std::vector<Quota> kinds_;  ///< Indexed by Kind. Its size never changes: shares point into it.
};

// ---- tables of handles ----

/// The limits of one kind of objects, and its name in messages.
struct TableLimits {
  const char* kind = "";
  uint32_t of_program = 0;
  Quota* of_user = nullptr;  ///< Limits those of all programs of the user; null: no limit.
};
TableLimits LimitsOf(Kind kind, const Limits& limits, UserAccount& user);

/// Maps handles, small integers, to the objects of one kind of one program. Owns its objects.
/// Handles are dense, below the limit. A freed handle is reused as late as possible, so that a
/// stale handle finds an empty slot rather than another object.
template <typename T>
class HandleTable {
 public:
  explicit HandleTable(const TableLimits& limits)
      : kind_(limits.kind), limit_(limits.of_program), share_(limits.of_user) {}
  HandleTable(const char* kind, uint32_t limit, Quota* of_user = nullptr)
      : HandleTable(TableLimits{kind, limit, of_user}) {}

  /// Errors: ResourceExhausted.
  absl::StatusOr<uint32_t> Add(std::unique_ptr<T> object) {
    if (absl::Status status = CheckRoom(); !status.ok()) return status;
    const uint32_t handle = TakeSlot();
    slots_[handle] = std::move(object);
    ++count_;
    share_.Take(1);
    return handle;
  }

  absl::Status CheckRoom() const {
    if (count_ < limit_) return share_.Check(kind_, 1);
    return absl::ResourceExhaustedError(absl::StrCat(kind_, ": all ", limit_, " are in use"));
  }

  /// The handle that the next Add will return, if there is room.
  uint32_t NextHandle() const {
    const auto size = static_cast<uint32_t>(slots_.size());
    return GivesFreshSlot() ? size : free_.front();
  }

  /// Errors: InvalidArgument when there is no such object.
  absl::StatusOr<T*> Find(uint32_t handle) const {
    T* object = handle < slots_.size() ? slots_[handle].get() : nullptr;
    if (object != nullptr) return object;
    return absl::InvalidArgumentError(absl::StrCat(kind_, ": there is no handle ", handle));
  }

  /// Removes an object and returns it; the handle must exist.
  std::unique_ptr<T> Remove(uint32_t handle) {
    --count_;
    share_.Give(1);
    free_.push_back(handle);
    return std::move(slots_[handle]);
  }

  /// Replaces the object that has this handle, which must exist, by `object`. Returns the old
  /// object.
  std::unique_ptr<T> Exchange(uint32_t handle, std::unique_ptr<T> object) {
    std::swap(slots_[handle], object);
    return object;
  }

  uint32_t count() const { return count_; }

  /// Returns the handles of the objects that `wanted` selects.
  template <typename Wanted>
  std::vector<uint32_t> Handles(Wanted&& wanted) const {
    std::vector<uint32_t> handles;
    ForEach([&](uint32_t handle, const T& object) {
      if (wanted(object)) handles.push_back(handle);
    });
    return handles;
  }

  /// Calls `visit(handle, object)` for at most `most` objects from handle `first` on, in rising
  /// order of handles. Returns the handle at which to continue, or kNoHandle.
  static constexpr uint32_t kNoHandle = UINT32_MAX;
  template <typename Visit>
  uint32_t ForSome(uint32_t first, uint32_t most, Visit&& visit) const {
    for (uint32_t handle = first; handle < slots_.size(); ++handle) {
      if (slots_[handle] == nullptr) continue;
      if (most-- == 0) return handle;
      visit(handle, *slots_[handle]);
    }
    return kNoHandle;
  }

  /// Calls `visit(handle, object)` for each object, in rising order of handles.
  template <typename Visit>
  void ForEach(Visit&& visit) const {
    for (uint32_t handle = 0; handle < slots_.size(); ++handle) {
      if (slots_[handle] != nullptr) visit(handle, *slots_[handle]);
    }
  }

 private:
  static constexpr uint32_t kFreshHandles = 64;

  // New slots first, so that freed handles rest.
  bool GivesFreshSlot() const {
    const auto size = static_cast<uint32_t>(slots_.size());
    return free_.empty() || (size < kFreshHandles && size < limit_);
  }

  // The table has room, or CheckRoom would have refused.
  uint32_t TakeSlot() {
    const uint32_t handle = NextHandle();
    if (GivesFreshSlot()) {
      slots_.push_back(nullptr);
    } else {
      free_.pop_front();
    }
    return handle;
  }

  const char* kind_;
  uint32_t limit_;
  uint32_t count_ = 0;
  QuotaShare share_;
  std::vector<std::unique_ptr<T>> slots_;
  std::deque<uint32_t> free_;
};

// ---- memory of queues ----

/// The memory of one program's queues and doorbells (layout: uroce_arena.h). It is sparse: a page
/// costs memory once it is touched. A returned range loses its pages, so that a new queue starts as
/// zeros. Control thread.
class Arena {
 public:
  /// What is taken counts against `of_user`, which outlives the arena. `reaper` unmaps the memory;
  /// without a reaper the destructor does.
  static absl::StatusOr<Arena> Make(uint32_t worker_count, Quota* of_user = nullptr,
                                    std::shared_ptr<SideThread> reaper = nullptr);

  /// Takes a zeroed, page-aligned range. Errors: ResourceExhausted.
  absl::StatusOr<uint64_t> Take(uint64_t length_bytes);
  /// Returns a range to the arena; no worker may use it any more.
  void Give(uint64_t offset, uint64_t length_bytes);

  template <typename T>
  T* At(uint64_t offset) const {
    return reinterpret_cast<T*>(storage_->mapping.data() + offset);
  }
  uroce_doorbells* doorbells(uint32_t worker) const {
    return At<uroce_doorbells>(UROCE_DOORBELLS_OFFSET) + worker;
  }
  int fd() const { return storage_->fd.get(); }

 private:
  struct Storage {
    Fd fd;
    Mapping mapping;
  };

  Arena(std::shared_ptr<Storage> storage, uint64_t queues_offset, Quota* of_user);

  std::shared_ptr<Storage> storage_;
  Extents extents_;
  QuotaShare share_;
};

/// A range of the program's arena.
struct ArenaRange {
  uint64_t offset = 0;
  uint64_t length_bytes = 0;
};

}  // namespace uroce::nic
