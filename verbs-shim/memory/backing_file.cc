// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/backing_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <cstring>

#include "verbs-shim/memory/process_files.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {
namespace {

// In a program with more open files than this, the search for the memory's file fails.
constexpr int kMaxFdsSeen = 4096;

// Static, because the caller's stack may be small.
char g_mapping_name[4096];
char g_fd_name[4096];

bool IsFileOf(const Vma& vma, const struct stat& status) {
  return MakeDevice(major(status.st_dev), minor(status.st_dev)) == vma.device &&
         status.st_ino == vma.inode;
}

bool IsFileOf(const Vma& vma, int64_t fd) {
  struct stat status = {};
  return SystemCall(SYS_fstat, fd, &status) == 0 && IsFileOf(vma, status);
}

bool AllowsAccess(int64_t fd, bool writable) {
  const int64_t flags = SystemCall(SYS_fcntl, fd, F_GETFL);
  if (flags < 0 || (flags & O_PATH) != 0) return false;
  const int64_t mode = flags & O_ACCMODE;
  return mode == O_RDWR || (mode == O_RDONLY && !writable);
}

/// Returns an fd that is the mapping's file, and closes any other.
int64_t KeepIfRight(const Vma& vma, bool writable, int64_t fd) {
  if (fd < 0 || (IsFileOf(vma, fd) && AllowsAccess(fd, writable))) return fd;
  SystemCall(SYS_close, fd);
  return -1;
}

int64_t OpenFor(const char* path, bool writable) {
  const int flags = (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  return OpenFile(path, flags);
}

void AppendHex(char*& at, uint64_t value) {
  int shift = 60;
  while (shift > 0 && value >> shift == 0) shift -= 4;
  for (; shift >= 0; shift -= 4) *at++ = "0123456789abcdef"[value >> shift & 15];
}

/// Writes "/proc/self/map_files/START-END".
void LinkOf(const Vma& vma, char (&link)[64]) {
  memcpy(link, "/proc/self/map_files/", 21);
  char* at = link + 21;
  AppendHex(at, vma.start);
  *at++ = '-';
  AppendHex(at, vma.end);
  *at = '\0';
}

/// The target of a link; empty when it cannot be read or is too long.
template <size_t kSize>
void ReadLink(int64_t directory, const char* path, char (&target)[kSize]) {
  const int64_t length = SystemCall(SYS_readlinkat, directory, path, target, kSize - 1);
  target[length > 0 && length < static_cast<int64_t>(kSize) - 1 ? length : 0] = '\0';
}

/// Opens a path that leads to the mapping's file. Other files and devices are not opened.
int64_t OpenByPath(const Vma& vma, bool writable, const char* path) {
  struct stat status = {};
  if (SystemCall(SYS_newfstatat, AT_FDCWD, path, &status, 0) != 0) return -1;
  if (!IsFileOf(vma, status) || !S_ISREG(status.st_mode)) return -1;
  return KeepIfRight(vma, writable, OpenFor(path, writable));
}

/// Duplicates `fd`. The copy is checked, so it stays right whatever another thread does to `fd`.
int64_t Duplicate(const Vma& vma, bool writable, int fd) {
  return KeepIfRight(vma, writable, SystemCall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0));
}

int64_t OpenByFd(const Vma& vma, bool writable) {
  if (g_mapping_name[0] == '\0') return -1;
  const int64_t directory = OpenProcessFile(ProcessFile::kOpenFiles);
  if (directory < 0) return -1;
  int64_t found = -1;
  int seen = 0;
  (void)ForEachNumber(directory, [&](int64_t number, const char* name) {
    // The link's name is checked first: a stat of another kind of file may block.
    ReadLink(directory, name, g_fd_name);
    if (strcmp(g_fd_name, g_mapping_name) == 0) {
      found = Duplicate(vma, writable, static_cast<int>(number));
    }
    return found >= 0 || ++seen == kMaxFdsSeen ? 1 : 0;
  });
  return found;
}

bool IsInMemory(int64_t fd) {
  struct statfs file_system = {};
  if (SystemCall(SYS_fstatfs, fd, &file_system) != 0) return false;
  return file_system.f_type == TMPFS_MAGIC || file_system.f_type == HUGETLBFS_MAGIC;
}

}  // namespace

BackingFile OpenBackingFile(const Vma& vma, bool writable) {
  // tmpfs and hugetlbfs have no block device: their major number is 0.
  if (vma.device >> 32 != 0) return {BackingFile::Kind::kOther, -1};
  char link[64];
  LinkOf(vma, link);
  ReadLink(AT_FDCWD, link, g_mapping_name);
  int64_t fd = g_mapping_name[0] == '/' ? OpenByPath(vma, writable, g_mapping_name) : -1;
  if (fd < 0) fd = OpenByPath(vma, writable, link);
  if (fd < 0) fd = OpenByFd(vma, writable);
  if (fd < 0) return {BackingFile::Kind::kHidden, -1};
  if (IsInMemory(fd)) return {BackingFile::Kind::kOpen, static_cast<int>(fd)};
  SystemCall(SYS_close, fd);
  return {BackingFile::Kind::kOther, -1};
}

bool IdentityOf(int fd, uint64_t& device, uint64_t& inode) {
  struct stat status = {};
  if (SystemCall(SYS_fstat, fd, &status) != 0) return false;
  device = MakeDevice(major(status.st_dev), minor(status.st_dev));
  inode = status.st_ino;
  return true;
}

}  // namespace uroce::memory
