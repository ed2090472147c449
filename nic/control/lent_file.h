// SPDX-License-Identifier: Apache-2.0
// Files that a program lends the daemon: its own memory, and files that it has mapped shared. These
// fds are untrusted: a thread that uses one may block, so all functions here run on threads that no
// other thread waits for.
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

/// The process that connected, and the credentials of its user.
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

/// Whether `fd` is a process's memory (/proc/PID/mem), open for reading and writing. Moves the file
/// position of `fd`.
bool IsMemoryFile(int fd);

/// Maps the part of `file` that `request` asks for. Returns 0 or an errno: EINVAL (not a file on
/// tmpfs or hugetlbfs, not open for the access, bytes behind its end), or that of mmap.
[[nodiscard]] int MapLentFile(const uroce_lend& request, const Fd& file, LentFile& lent);

/// Identifies the file `file`, and holds its identity without keeping its contents; `thread` will
/// release it. Returns 0 or an errno: EBADF when `file` was opened with O_PATH, which needs no
/// right to the file; EOPNOTSUPP on FUSE, whose server could block the thread for ever.
[[nodiscard]] int FindXrcFile(const Fd& file, const std::shared_ptr<SideThread>& thread,
                              XrcFile& found);

/// Opens the file behind the lender's mapping that `request` names. The daemon adds only its
/// privilege to look there (CAP_CHECKPOINT_RESTORE). From then on the calling thread otherwise has
/// only the rights of the lender's user, so that it cannot look into a process that reuses the PID,
/// nor into a program that now runs as another user. Returns 0 or an errno; EACCES when the mapping
/// is not shared, or does not allow the access now.
[[nodiscard]] int OpenMappedFile(const Lender& lender, const uroce_lend& request, Fd& file);

}  // namespace uroce::nic
