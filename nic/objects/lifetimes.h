// SPDX-License-Identifier: Apache-2.0
// The rule of lifetime that all verbs objects of programs obey:
//
// - An object belongs to one context, from its creation to its end.
// - An object uses only objects of the same context (CheckContext in nic/objects/contexts.h). It
//   holds a Use of each of them.
// - A command cannot destroy an object that has users.
// - When a context or a program ends, the parts of the program end in an order in which users come
//   before what they use (Program::parts). So each of these ends succeeds.
// - No object refers to an object of another program by a pointer or a handle. What programs share
//   is held by a shared_ptr (Domain, XrcDomain, XrcTarget), or is found by a random name that no
//   later object has (uroce_context_name).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace uroce::nic {

/// Counts the objects that use the object of which this is a member. Control thread.
class Users {
 public:
  Users() = default;
  Users(const Users&) = delete;
  Users& operator=(const Users&) = delete;
  /// A user would be left with a pointer to freed memory: the daemon stops.
  ~Users() {
    if (count_ != 0) std::abort();
  }

  uint32_t count() const { return count_; }
  /// Checks that the object may be destroyed. `kind` as programs know it: "cq", "pd". Errors:
  /// FailedPrecondition.
  absl::Status CheckNone(const char* kind) const {
    if (count_ == 0) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(kind, ": ", count_, " objects still use it"));
  }

 private:
  template <typename T>
  friend class Use;

  uint32_t count_ = 0;
};

/// A counted pointer to an object that has `Users users`. It may be null. Control thread.
template <typename T>
class Use {
 public:
  Use() = default;
  explicit Use(T* used) : used_(used) {
    if (used_ != nullptr) ++used_->users.count_;
  }
  Use(Use&& other) noexcept : used_(std::exchange(other.used_, nullptr)) {}
  Use& operator=(Use&& other) noexcept {
    std::swap(used_, other.used_);
    return *this;
  }
  ~Use() {
    if (used_ != nullptr) --used_->users.count_;
  }

  T* get() const { return used_; }
  T* operator->() const { return used_; }
  // NOLINTNEXTLINE(google-explicit-constructor): it is compared and passed on as a pointer is.
  operator T*() const { return used_; }

 private:
  T* used_ = nullptr;
};

/// An end that no user can prevent, since all users have ended before.
inline void MustEnd(const absl::Status& status) {
  if (!status.ok()) std::abort();
}

}  // namespace uroce::nic
