// SPDX-License-Identifier: Apache-2.0
// Programs that dlopen libibverbs get its functions by dlsym of that handle, and dlsym does not
// search preloaded libraries then. So dlopen gives them a library that depends on ours and then on
// libibverbs: dlsym and dlvsym both search the dependencies in this order.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "verbs-shim/next_function.h"
#include "verbs-shim/real_library.h"

namespace uroce::shim {
namespace {

constinit NextFunction<void*(const char*, int)> next_dlopen("dlopen");

bool IsVerbsLibrary(const char* path) {
  if (path == nullptr) return false;
  const char* slash = strrchr(path, '/');
  const char* name = slash == nullptr ? path : slash + 1;
  return strcmp(name, "libibverbs.so.1") == 0 || strcmp(name, "libibverbs.so") == 0;
}

/// Opens the library with these dependencies, which lies beside ours. Null: the file is missing.
void* OpenFront(int flags) {
  Dl_info own = {};
  if (dladdr(reinterpret_cast<void*>(&OpenFront), &own) == 0 || own.dli_fname == nullptr) {
    return nullptr;
  }
  const char* slash = strrchr(own.dli_fname, '/');
  const int directory = slash == nullptr ? 0 : static_cast<int>(slash - own.dli_fname) + 1;
  char path[512];
  const int length =
      snprintf(path, sizeof(path), "%.*sliburoce-verbs.so", directory, own.dli_fname);
  return length < static_cast<int>(sizeof(path)) ? next_dlopen.Get()(path, flags) : nullptr;
}

}  // namespace

extern "C" {

void* HookDlopen(const char* path, int flags) __asm__("dlopen");

// The hook ends in a tail call: the real dlopen searches the RUNPATH of its caller.
__attribute__((optimize("optimize-sibling-calls"))) UROCE_EXPORT void* HookDlopen(const char* path,
                                                                                  int flags) {
  if (IsVerbsLibrary(path) && (flags & RTLD_NOLOAD) == 0) {
    // A libibverbs named with its directory is loaded first, and then is also the dependency.
    const bool is_there = strchr(path, '/') == nullptr || next_dlopen.Get()(path, flags) != nullptr;
    void* front = is_there ? OpenFront(flags) : nullptr;
    if (front != nullptr) return front;
  }
  return next_dlopen.Get()(path, flags);
}

}  // extern "C"

}  // namespace uroce::shim
