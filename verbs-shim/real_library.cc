// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/real_library.h"

#include <dlfcn.h>

namespace uroce::shim {

void* FindReal(const char* name, const char* version) {
  const ErrnoKeeper keeper;
  // Found by handle: RTLD_NEXT finds nothing when a dlopened module brought libibverbs in.
  void* library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
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
