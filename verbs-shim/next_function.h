// SPDX-License-Identifier: Apache-2.0
// Finds the definition in libc of a function that this library replaces.
#pragma once

#include <dlfcn.h>

namespace uroce::shim {

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
