// SPDX-License-Identifier: Apache-2.0
// What a program may hold: the accounts of its user, tables of handles with their limits, and the
// memory of its queues and doorbells (layout: uroce_arena.h).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nic/base/allocators.h"
#include "nic/base/user_limits.h"
#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/shared_memory.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce {
class SideThread;
}

namespace uroce::datapath {
class MemoryRest;
class SharedRate;
}  // namespace uroce::datapath

namespace uroce::nic {

enum class Kind : uint8_t;
struct Limits;

// ---- what all programs of a user hold ----

/// What all users share. Control thread.
struct Pools {
  /// Of a daemon that maps at most `mappings` files of programs, where its process can have
  /// `memory_bytes` of memory.
  Pools(const Limits& limits, uint64_t mappings, uint64_t memory_bytes);

  Pool mappings;
  Pool memory;       ///< Bytes of registered memory; one user may hold three quarters of it.
  Pool queue_bytes;  ///< Of arenas: half of the memory.
  Pool own_bytes;    ///< Of the daemon's own memory for objects and sockets: half of the memory.
  Pool keys;         ///< Of regions and windows.
};

/// The resources of one user, and their limits. Control thread.
class UserAccount {
 public:
  /// `pools` outlive the account. `copies_others`: workers access no memory of the user, unless it
  /// is root or the daemon's own.
  UserAccount(uint32_t uid, const Limits& limits, Pools& pools, bool copies_others);
  ~UserAccount();
  UserAccount(const UserAccount&) = delete;
  UserAccount& operator=(const UserAccount&) = delete;

  /// Applies to what the user asks for from now on; what it holds stays. While all workers stand
  /// still.
  void SetLimits(const Limits& limits);

  Quota& of(Kind kind) { return kinds_[static_cast<size_t>(kind)]; }
  const Quota& of(Kind kind) const { return kinds_[static_cast<size_t>(kind)]; }

  /// Closes sockets of ended objects whose contents have been read meanwhile, and returns their
  /// places (UserSocket). Looks at some of them.
  void ForgetRead();

  datapath::WakePace wake_pace;
  /// What all queue pairs of the user send together. Sessions refer to it.
  const std::unique_ptr<datapath::SharedRate> rate;
  /// While mapped memory of the user's programs is left to their copy helpers. Sessions refer to
  /// it.
  const std::unique_ptr<datapath::MemoryRest> memory_rest;
  /// Bytes that the daemon and the kernel keep for the user's objects and sockets, beside queues
  /// and registered memory. The quotas of objects and sockets take from it.
  Quota own_bytes;
  Quota contexts;     ///< Contexts, and channels; a program's limits are in their tables.
  Quota pds;          ///< The same for protection domains.
  Quota sockets;      ///< One-way sockets to programs; see UserSocket.
  Quota mappings;     ///< Segments, including removed ones that regions still use.
  Quota xrc_files;    ///< For domains that are being opened.
  Quota attachments;  ///< Queue pairs attached to multicast groups.
  Quota queue_bytes;  ///< Bytes taken in arenas.
  Quota memory;       ///< Bytes of registered memory that the daemon maps.
  /// Closes refused connections.
  const std::shared_ptr<SideThread> refusals_thread;

 private:
  friend class UserSocket;
  struct UnreadSocket {
    Fd writer;
    uint32_t places = 0;  ///< Of `sockets`.
  };
  std::vector<Quota> kinds_;  ///< Indexed by Kind. Its size never changes: shares point into it.
  std::vector<UnreadSocket> unread_;
  size_t next_unread_ = 0;  ///< Where ForgetRead continues.
};

/// The daemon's end of a one-way socket to a program (pipeline/os/unix_socket.h). It counts against
/// the sockets of the program's user for the kernel memory that its contents may take. When the
/// object is destroyed, the socket ends, but it counts until the program has read the contents or
/// closed its end. So a program cannot collect unread sockets. Control thread.
class UserSocket {
 public:
  enum class Holds : uint8_t {
    kRecords,  ///< Small ones; the socket counts once, for some 66 KB.
    kText,     ///< Much; the socket counts three times.
  };
  /// Makes a socket for a `kind` of objects, as messages name it. Errors: ResourceExhausted;
  /// Internal: no fd. `user` outlives the object.
  static absl::StatusOr<UserSocket> Make(const char* kind, Holds holds, UserAccount& user,
                                         Fd& reader);
  UserSocket() = default;
  UserSocket(UserSocket&& other) noexcept;
  UserSocket& operator=(UserSocket&& other) noexcept;
  ~UserSocket();

  int get() const { return writer_.get(); }

 private:
  UserAccount* user_ = nullptr;
  uint32_t places_ = 0;
  Fd writer_;
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

  /// Errors: NotFound when there is no such object: ENOENT, as Linux refuses an unknown handle.
  absl::StatusOr<T*> Find(uint32_t handle) const {
    T* object = handle < slots_.size() ? slots_[handle].get() : nullptr;
    if (object != nullptr) return object;
    return absl::NotFoundError(absl::StrCat(kind_, ": there is no handle ", handle));
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

  /// Calls `end`, which removes the object, for the handles of the objects that `wanted` selects,
  /// until `is_over`. Returns whether none is left; false: call it again.
  template <typename Wanted, typename End>
  bool EndSome(Wanted&& wanted, absl::FunctionRef<bool()> is_over, End&& end) {
    for (uint32_t handle = 0; handle < slots_.size(); ++handle) {
      if (slots_[handle] == nullptr || !wanted(*slots_[handle])) continue;
      end(handle);
      if (is_over()) return false;
    }
    return true;
  }

  /// Removes up to `most` objects, those with the highest handles first, and returns them. The
  /// table takes no further objects.
  std::vector<std::unique_ptr<T>> TakeLast(size_t most) {
    std::vector<std::unique_ptr<T>> taken;
    for (; taken.size() < most && !slots_.empty(); slots_.pop_back()) {
      if (slots_.back() != nullptr) taken.push_back(std::move(slots_.back()));
    }
    count_ -= static_cast<uint32_t>(taken.size());
    share_.Give(taken.size());
    return taken;
  }

  /// Calls `end` with some of the objects after others, until `is_over`; objects are destroyed
  /// then. Returns whether none is left; false: call it again. The table takes no further objects.
  template <typename End>
  bool EndAll(absl::FunctionRef<bool()> is_over, End&& end) {
    constexpr size_t kTogether = 64;  // Some tens of us.
    while (count_ != 0) {
      std::vector<std::unique_ptr<T>> leaving = TakeLast(kTogether);
      end(std::span<const std::unique_ptr<T>>(leaving));
      leaving.clear();
      if (is_over()) return false;
    }
    return true;
  }
  bool EndAll(absl::FunctionRef<bool()> is_over) {
    return EndAll(is_over, [](std::span<const std::unique_ptr<T>>) {});
  }

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

/// A range of the program's arena.
struct ArenaRange {
  uint64_t offset = 0;
  uint64_t length_bytes = 0;
};

/// The memory of one program's queues and doorbells (layout: uroce_arena.h). It is sparse: a page
/// costs memory once it is touched, and until the arena ends, since the program could hold the lock
/// that the kernel takes to free pages. So all that was ever taken counts. A returned range is
/// cleared before it is taken again, so that a new queue starts as zeros; that takes as long as the
/// range is, and so is done on another thread: Returned::Clear(). Control thread.
class Arena {
 private:
  struct Storage {
    Fd fd;
    GuardedMapping mapping;
  };

 public:
  /// Ranges that queues have left.
  struct Returned {
    std::shared_ptr<Storage> storage;
    std::vector<ArenaRange> ranges;
    /// Sets them to zero, without making pages that are not there. Any thread.
    void Clear() const;
  };

  /// What was ever taken counts against `of_user`, which outlives the arena. `reaper` unmaps the
  /// memory; without a reaper the destructor does. Where the kernel has no memory for a page, the
  /// daemon reads zeros, and MappingGuard::TakeStruck names `owner`.
  static absl::StatusOr<Arena> Make(uint32_t worker_count, Quota* of_user = nullptr,
                                    std::shared_ptr<SideThread> reaper = nullptr,
                                    uint32_t owner = MappingGuard::kNoOwner);

  /// Takes a zeroed, page-aligned range. Errors: ResourceExhausted.
  absl::StatusOr<uint64_t> Take(uint64_t length_bytes);
  /// Returns a range to the arena; no worker may use it any more. It is free after Reuse().
  void Give(uint64_t offset, uint64_t length_bytes);

  /// Whether so much was returned, or the user has so little left, that it is to be cleared before
  /// the program goes on.
  bool MustClear() const;
  /// What was returned since the last call. The caller clears it, and calls Reuse() then.
  Returned TakeReturned();
  void Reuse(const Returned& cleared);

  template <typename T>
  T* At(uint64_t offset) const {
    return reinterpret_cast<T*>(storage_->mapping.data() + offset);
  }
  uroce_doorbells* doorbells(uint32_t worker) const {
    return At<uroce_doorbells>(UROCE_DOORBELLS_OFFSET) + worker;
  }
  int fd() const { return storage_->fd.get(); }

 private:
  static constexpr uint64_t kMostReturned = 1 << 20;
  static constexpr uint64_t kLeastLeft = 64 << 20;

  Arena(std::shared_ptr<Storage> storage, uint64_t queues_offset, Quota* of_user);

  std::shared_ptr<Storage> storage_;
  Extents extents_;
  uint64_t reached_;  ///< The end of what was ever taken. Ranges are taken from the start on.
  QuotaShare share_;  ///< Holds as much as was ever taken.
  std::vector<ArenaRange> returned_;
  uint64_t returned_bytes_ = 0;
};

}  // namespace uroce::nic
