// SPDX-License-Identifier: Apache-2.0
// Files behind memory: opens that of a shared mapping with the process's own rights, and tells
// whether the program may write a file so long.
#pragma once

#include <sys/resource.h>

#include <cstdint>

#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {

// ---- The limit on the size of files that a program writes, memfds too: `ulimit -f` ----

/// Whether the process may write or extend a file to `bytes`. If it did without, SIGXFSZ would end
/// the program.
inline bool AllowsFileOf(uint64_t bytes) {
  struct rlimit64 limit = {};
  const int64_t result = SystemCall(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &limit);
  return result != 0 || limit.rlim_cur >= bytes;
}

// ---- Files that this process has mapped shared ----

/// The file behind a shared mapping, if this process can open it.
struct BackingFile {
  enum class Kind : uint8_t {
    kOpen,    // the caller closes `fd`
    kHidden,  // this process cannot reach it; the daemon perhaps can
    kOther,   // not on tmpfs or hugetlbfs
  };
  Kind kind;
  int fd;
};

/// Tries the mapping's path, the mapping's link in /proc (which needs CAP_CHECKPOINT_RESTORE), and
/// the fds of this process: a memfd or an unlinked file has no path. The file that is opened is
/// always the mapping's, by device and inode. `writable`: open for writing too. Paths to another
/// file are checked without opening it. Not reentrant: the caller holds the lock of the
/// registrations.
BackingFile OpenBackingFile(const Vma& vma, bool writable);

/// Sets device and inode of an open file, in the form of /proc/self/maps. False when it has none.
[[nodiscard]] bool IdentityOf(int fd, uint64_t& device, uint64_t& inode);

}  // namespace uroce::memory
