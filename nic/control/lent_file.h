// SPDX-License-Identifier: Apache-2.0
// Files that a program lends the daemon: its own memory, and files that it has mapped shared. They
// are strangers' fds: whoever looks at one may block, so all here runs on threads that nobody waits
// for.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "nic/base/credentials.h"
#include "nic/base/fd.h"
#include "nic/base/side_thread.h"
#include "nic/objects/xrc_file.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// The process that connected, and whose rights it has.
struct Lender {
  pid_t pid = 0;
  Credentials user;
};

/// Part of a file, mapped.
struct LentFile {
  Mapping mapping;
  uint64_t offset = 0;
  bool writable = false;
};

/// Whether `fd` is a process's memory (/proc/PID/mem), open for reading and writing. Its position
/// moves.
bool IsMemoryFile(int fd);

/// Maps what `request` asks for, of `file`. Returns 0 or an errno: EINVAL (not a file on tmpfs or
/// hugetlbfs, not open for the access, bytes behind its end), or that of mmap.
[[nodiscard]] int MapLentFile(const uroce_lend& request, const Fd& file, LentFile& lent);

/// Finds out which file `file` is, and holds it without a hold on its contents; `thread` will let
/// go of it. Returns 0 or an errno: EBADF when `file` was opened with O_PATH, which takes no right
/// to the file; EOPNOTSUPP on FUSE, whose server might have the thread wait for ever then.
[[nodiscard]] int FindXrcFile(const Fd& file, const std::shared_ptr<SideThread>& thread,
                              XrcFile& found);

/// Opens the file behind the lender's mapping that `request` names: the daemon lends its privilege
/// to look there (CAP_CHECKPOINT_RESTORE), nothing else. From then on the calling thread has only
/// the rights of the lender's user besides, so that neither a PID that is given out anew nor a
/// program that has become another user's is looked into. Returns 0 or an errno; EACCES when the
/// mapping is not shared, or does not allow the access now.
[[nodiscard]] int OpenMappedFile(const Lender& lender, const uroce_lend& request, Fd& file);

}  // namespace uroce::nic
