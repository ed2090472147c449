// SPDX-License-Identifier: Apache-2.0
// Hooks on libc's functions of fds, for files of the connection manager: writes go to the daemon,
// stat shows a character device, and duplicates are followed. All other calls work unchanged: the
// files are sockets. Other fds cost one load. The hooks are async-signal-safe for other fds.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "verbs-shim/cm_commands.h"
#include "verbs-shim/real_library.h"

namespace uroce::shim {
namespace {

using Write = ssize_t(int, const void*, size_t);
using StatOf = int(int, struct stat*);
using VersionedStatOf = int(int, int, struct stat*);
using Duplicate = int(int);
using DuplicateTo = int(int, int);
using DuplicateWith = int(int, int, int);
using Control = int(int, int, ...);

constinit NextFunction<Write> next_write("write");
constinit NextFunction<StatOf> next_fstat("fstat"), next_fstat64("fstat64");
constinit NextFunction<VersionedStatOf> next_fxstat("__fxstat"), next_fxstat64("__fxstat64");
constinit NextFunction<Duplicate> next_dup("dup");
constinit NextFunction<DuplicateTo> next_dup2("dup2");
constinit NextFunction<DuplicateWith> next_dup3("dup3");
constinit NextFunction<Control> next_fcntl("fcntl"), next_fcntl64("fcntl64");

// Looked up here, so that no signal handler has to do it later.
__attribute__((constructor)) void LookUpAll() {
  static_cast<void>(next_write.Get());
  static_cast<void>(next_fstat.Get());
  static_cast<void>(next_fstat64.Get());
  static_cast<void>(next_fxstat.Get());
  static_cast<void>(next_fxstat64.Get());
  static_cast<void>(next_dup.Get());
  static_cast<void>(next_dup2.Get());
  static_cast<void>(next_dup3.Get());
  static_cast<void>(next_fcntl.Get());
  static_cast<void>(next_fcntl64.Get());
}

/// The device number by which librdmacm knows the kernel's node, if there is one (asked by
/// netlink).
dev_t DeviceNumber() {
  const ErrnoKeeper keeper;
  struct stat status;
  const long result = syscall(SYS_newfstatat, AT_FDCWD, "/dev/infiniband/rdma_cm", &status, 0);
  return result == 0 && S_ISCHR(status.st_mode) ? status.st_rdev : makedev(10, 0);
}

/// Makes the status of a file's socket that of the node. On 64 bits all versions have the same
/// layout.
int Disguise(int result, int fd, struct stat* status) {
  CmFile file;
  if (result != 0 || !CmFiles::MayHave(fd) || !CmFiles::Find(fd, &file)) return result;
  status->st_mode = S_IFCHR | 0666;
  status->st_rdev = DeviceNumber();
  return 0;
}

/// Records `copy`, which was duplicated from `fd`.
int Follow(int copy, int fd) {
  CmFile file;
  if (copy < 0 || copy == fd || !CmFiles::MayHave(fd) || !CmFiles::Find(fd, &file)) return copy;
  if (CmFiles::Add(copy, file)) return copy;
  close(copy);
  errno = EMFILE;
  return -1;
}

/// The third argument is always in its register, whatever its type: libc's own function relies on
/// it.
int FollowControl(Control* next, int fd, int command, void* argument) {
  const int result = next(fd, command, argument);
  const bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  return copies ? Follow(result, fd) : result;
}

}  // namespace

extern "C" {

ssize_t HookWrite(int fd, const void* data, size_t size_bytes) __asm__("write");
int HookFstat(int fd, struct stat* status) __asm__("fstat");
int HookFstat64(int fd, struct stat* status) __asm__("fstat64");
int HookFxstat(int version, int fd, struct stat* status) __asm__("__fxstat");
int HookFxstat64(int version, int fd, struct stat* status) __asm__("__fxstat64");
int HookDup(int fd) __asm__("dup");
int HookDup2(int fd, int copy) __asm__("dup2");
int HookDup3(int fd, int copy, int flags) __asm__("dup3");
int HookFcntl(int fd, int command, void* argument) __asm__("fcntl");
int HookFcntl64(int fd, int command, void* argument) __asm__("fcntl64");

UROCE_EXPORT ssize_t HookWrite(int fd, const void* data, size_t size_bytes) {
  CmFile file;
  if (CmFiles::MayHave(fd) && CmFiles::Find(fd, &file)) {
    return WriteCm(file, fd, data, size_bytes);
  }
  return next_write.Get()(fd, data, size_bytes);
}

UROCE_EXPORT int HookFstat(int fd, struct stat* status) {
  return Disguise(next_fstat.Get()(fd, status), fd, status);
}
UROCE_EXPORT int HookFstat64(int fd, struct stat* status) {
  return Disguise(next_fstat64.Get()(fd, status), fd, status);
}
UROCE_EXPORT int HookFxstat(int version, int fd, struct stat* status) {
  return Disguise(next_fxstat.Get()(version, fd, status), fd, status);
}
UROCE_EXPORT int HookFxstat64(int version, int fd, struct stat* status) {
  return Disguise(next_fxstat64.Get()(version, fd, status), fd, status);
}

UROCE_EXPORT int HookDup(int fd) { return Follow(next_dup.Get()(fd), fd); }
UROCE_EXPORT int HookDup2(int fd, int copy) { return Follow(next_dup2.Get()(fd, copy), fd); }
UROCE_EXPORT int HookDup3(int fd, int copy, int flags) {
  return Follow(next_dup3.Get()(fd, copy, flags), fd);
}
UROCE_EXPORT int HookFcntl(int fd, int command, void* argument) {
  return FollowControl(next_fcntl.Get(), fd, command, argument);
}
UROCE_EXPORT int HookFcntl64(int fd, int command, void* argument) {
  return FollowControl(next_fcntl64.Get(), fd, command, argument);
}

}  // extern "C"

}  // namespace uroce::shim
