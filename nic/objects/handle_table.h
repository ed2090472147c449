// SPDX-License-Identifier: Apache-2.0
// Maps handles, small integers, to the objects of one kind of one program.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nic/objects/user_account.h"

namespace uroce::nic {

/// Owns its objects. Handles are dense, below the limit. A freed handle is reused as late as
/// possible, so that a stale handle finds an empty slot rather than another object.
template <typename T>
class HandleTable {
 public:
  /// `kind` names the objects in messages. At most `limit` of them exist; `of_user` limits those of
  /// all programs of the user.
  HandleTable(const char* kind, uint32_t limit, Quota* of_user = nullptr)
      : kind_(kind), limit_(limit), share_(of_user) {}
  /// Uses the limits of a kind.
  HandleTable(Kind kind, const Limits& limits, UserAccount& user)
      : HandleTable(RowOf(kind).name, limits.kinds.of(kind).of_program, &user.of(kind)) {}

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

}  // namespace uroce::nic
