// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/real_library.h"

#include <dlfcn.h>

namespace uroce::shim {

constinit NextFunction<void*(const char*, int)> next_dlopen("dlopen");

void* FindReal(const char* name, const char* version) {
  const ErrnoKeeper keeper;
  // Found by handle: RTLD_NEXT finds nothing when a dlopened module brought libibverbs in. The
  // library stays loaded from now on: callers keep the address when the program closes its handle.
  void* library = next_dlopen.Get()("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  void* found = nullptr;
  if (library != nullptr) {
    found = dlvsym(library, name, version);
    if (found == nullptr) found = dlsym(library, name);
    dlclose(library);
  }
  if (found == nullptr) found = dlvsym(RTLD_NEXT, name, version);
  return found;
}

}  // namespace uroce::shim
