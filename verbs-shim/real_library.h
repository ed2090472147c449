// SPDX-License-Identifier: Apache-2.0
// Calls the functions that this library replaces: those of the installed libibverbs, for objects
// that are not this library's, and those of libc.
#pragma once

#include <dlfcn.h>
#include <errno.h>

#include "verbs-shim/support.h"

namespace uroce::shim {

// ---- Definitions in libc of functions that this library replaces ----

/// Looks the function up once. A hook may run before any constructor and in a signal handler: so a
/// constructor of ours calls first, or the hook looks the function up itself.
template <typename Signature>
class NextFunction {
 public:
  constexpr explicit NextFunction(const char* name) : name_(name) {}

  Signature* Get() {
    void* found = __atomic_load_n(&found_, __ATOMIC_ACQUIRE);
    if (found == nullptr) {
      found = dlsym(RTLD_NEXT, name_);
      __atomic_store_n(&found_, found, __ATOMIC_RELEASE);
    }
    return reinterpret_cast<Signature*>(found);
  }

 private:
  const char* name_;
  void* found_ = nullptr;
};

}  // namespace uroce::shim

// ---- The installed libibverbs ----

/// Marks a definition that programs may see.
#define UROCE_EXPORT __attribute__((visibility("default")))

namespace uroce::shim {

/// libc's dlopen, which our own stands in front of.
extern NextFunction<void*(const char*, int)> next_dlopen;

/// The address of `name` in the real library, or null. Never our own definition: searches the real
/// library's handle, and then the libraries behind ours in search order. The address stays valid.
void* FindReal(const char* name, const char* version);

/// One function of the real library, looked up at its first call.
template <typename Signature>
class RealFunction {
 public:
  constexpr RealFunction(const char* name, const char* version) : name_(name), version_(version) {}

  /// Calls the function. Without a real library, returns `otherwise` and sets errno to ENOSYS.
  template <typename Otherwise, typename... Arguments>
  auto CallOr(Otherwise otherwise, Arguments... arguments) {
    Signature* function = Get();
    using Result = decltype(function(arguments...));
    if (function != nullptr) return function(arguments...);
    errno = ENOSYS;
    return static_cast<Result>(otherwise);
  }
  /// Like CallOr, for functions without a result.
  template <typename... Arguments>
  void Call(Arguments... arguments) {
    Signature* function = Get();
    if (function != nullptr) function(arguments...);
  }

 private:
  Signature* Get() {
    void* found = __atomic_load_n(&found_, __ATOMIC_ACQUIRE);
    if (found == nullptr) {
      found = FindReal(name_, version_);
      __atomic_store_n(&found_, found, __ATOMIC_RELEASE);
    }
    return reinterpret_cast<Signature*>(found);
  }

  const char* name_;
  const char* version_;
  void* found_ = nullptr;
};

}  // namespace uroce::shim

/// Defines `real_<name>`, the real library's verb of that name.
#define UROCE_REAL(name, version) constinit RealFunction<decltype(name)> real_##name(#name, version)
