// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/shared_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "verbs-shim/support.h"

namespace uroce::shim {
namespace {

/// Makes a direct system call: libc's functions are hooked for files of the connection manager.
bool StatusOf(int fd, struct stat& status) {
  return syscall(SYS_newfstatat, fd, "", &status, AT_EMPTY_PATH) == 0;
}

}  // namespace

bool IsSealedMemory(int fd, uint64_t size_bytes) {
  const ErrnoKeeper keeper;
  // Only memory files have seals: from here on no file system can delay its answer.
  const long seals = syscall(SYS_fcntl, fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return false;
  struct stat status;
  struct statfs system;
  // Pages of hugetlbfs may be missing at access.
  return StatusOf(fd, status) && static_cast<uint64_t>(status.st_size) >= size_bytes &&
         fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

bool IsAnonymous(int fd) {
  const ErrnoKeeper keeper;
  struct stat status;
  return StatusOf(fd, status) && (status.st_mode & S_IFMT) == 0;
}

}  // namespace uroce::shim
