// SPDX-License-Identifier: Apache-2.0
// Opens the files that this process has mapped shared, with the process's own rights.
#pragma once

#include "verbs-shim/memory/maps.h"

namespace uroce::memory {

/// What lies behind a shared mapping, as far as this process can open it.
struct BackingFile {
  enum class Kind : uint8_t {
    kOpen,    // `fd` is the caller's to close
    kHidden,  // no way to it from here; the daemon may have one
    kOther,   // not on tmpfs or hugetlbfs
  };
  Kind kind;
  int fd;
};

/// Tries the mapping's path, the link that /proc has to it (which needs CAP_CHECKPOINT_RESTORE),
/// and the fds of this process: a memfd or an unlinked file has no path. Whatever is opened is the
/// file of the mapping, by device and inode. `writable`: open for writing too. Looks at paths
/// without opening what is another file. Not reentrant: the caller holds the lock of the
/// registrations.
BackingFile OpenBackingFile(const Vma& vma, bool writable);

/// Device and inode of an open file, in the form of /proc/self/maps. False when it has none.
[[nodiscard]] bool IdentityOf(int fd, uint64_t& device, uint64_t& inode);

}  // namespace uroce::memory
