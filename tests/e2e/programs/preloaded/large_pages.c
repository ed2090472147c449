// SPDX-License-Identifier: Apache-2.0
// Preloaded into uroced: a kernel of arm64 whose pages have 64 KB.
#include <dlfcn.h>
#include <stddef.h>
#include <unistd.h>

enum { kPageBytes = 64 << 10 };

typedef long Sysconf(int name);

long sysconf(int name) {
  if (name == _SC_PAGESIZE) return kPageBytes;
  Sysconf* next = NULL;
  *(void**)&next = dlsym(RTLD_NEXT, "sysconf");
  return next(name);
}
