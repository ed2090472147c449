// SPDX-License-Identifier: Apache-2.0
#include "nic/control/lent_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace uroce::nic {
namespace {

constexpr uint64_t kMaxLentBytes = uint64_t{1} << 44;
constexpr uint64_t kLookBehindMappings = uint64_t{1} << 40;  // CAP_CHECKPOINT_RESTORE (Linux 5.9)

/// Whether `fd` allows the access. An fd opened with O_PATH allows none.
bool AllowsAccess(int fd, bool writable) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_PATH) != 0) return false;
  const int mode = flags & O_ACCMODE;
  return mode == O_RDWR || (mode == O_RDONLY && !writable);
}

/// Finds the bytes of the file to map, in whole pages of its file system. Returns 0 or an errno.
int CheckFile(const uroce_lend& request, int fd, uint64_t& begin, uint64_t& end) {
  if (!AllowsAccess(fd, request.writable != 0)) return EINVAL;
  struct statfs file_system {};
  struct stat file {};
  if (fstatfs(fd, &file_system) != 0 || fstat(fd, &file) != 0) return errno;
  const bool is_memory = file_system.f_type == TMPFS_MAGIC || file_system.f_type == HUGETLBFS_MAGIC;
  if (!is_memory || !S_ISREG(file.st_mode)) return EINVAL;
  const auto page_bytes = static_cast<uint64_t>(file_system.f_bsize);
  const auto file_bytes = static_cast<uint64_t>(file.st_size);
  if (request.length == 0 || request.length > kMaxLentBytes || request.offset > file_bytes) {
    return EINVAL;
  }
  begin = request.offset / page_bytes * page_bytes;
  end = (request.offset + request.length + page_bytes - 1) / page_bytes * page_bytes;
  return end - begin <= kMaxLentBytes && end < file_bytes + page_bytes ? 0 : EINVAL;
}

/// The device and inode in a line of /proc/PID/maps.
struct SharedMapping {
  uint64_t device = 0;
  uint64_t inode = 0;
};

/// Looks for the mapping [vma_start, vma_end): it must be shared and allow the access now.
bool FindMapping(const Lender& lender, const uroce_lend& request, SharedMapping& found) {
  std::ifstream maps(absl::StrCat("/proc/", lender.pid, "/maps"));
  for (std::string line; std::getline(maps, line);) {
    uint64_t start = 0, end = 0, inode = 0;
    unsigned device_major = 0, device_minor = 0;
    char rights[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %*x %x:%x %" SCNu64, &start, &end,
                    rights, &device_major, &device_minor, &inode) != 6) {
      return false;
    }
    if (start != request.vma_start || end != request.vma_end) continue;
    found = {makedev(device_major, device_minor), inode};
    const bool may_write = rights[1] == 'w';
    return rights[0] == 'r' && rights[3] == 's' && (may_write || request.writable == 0);
  }
  return false;
}

}  // namespace

// A program can forge a path by its own mounts, but not the type of the file system, nor the
// behaviour of its files. In proc, only files that read a process's memory (mem, environ, pagemap)
// have positions that are addresses, with a valid upper half, and only mem of these is writable.
// Nothing else is tried on other files, since writing to them may have effects.
bool IsMemoryFile(int fd) {
  constexpr off_t kUpperHalf = INT64_MIN;
  struct statfs file_system {};
  return AllowsAccess(fd, true) && fstatfs(fd, &file_system) == 0 &&
         file_system.f_type == PROC_SUPER_MAGIC && lseek(fd, kUpperHalf, SEEK_SET) == kUpperHalf &&
         pwrite(fd, "", 0, 0) == 0;
}

int MapLentFile(const uroce_lend& request, const Fd& file, LentFile& lent) {
  uint64_t begin = 0, end = 0;
  if (const int error = CheckFile(request, file.get(), begin, end); error != 0) return error;
  const bool writable = request.writable != 0;
  void* data = mmap(nullptr, end - begin, PROT_READ | (writable ? PROT_WRITE : 0),
                    MAP_SHARED | MAP_NORESERVE, file.get(), static_cast<off_t>(begin));
  if (data == MAP_FAILED) return errno;
  lent.mapping = Mapping(data, end - begin);
  lent.offset = begin;
  lent.writable = writable;
  return 0;
}

int FindXrcFile(const Fd& file, const std::shared_ptr<SideThread>& thread, XrcFile& found) {
  const int flags = fcntl(file.get(), F_GETFL);
  if (flags < 0 || (flags & O_PATH) != 0) return EBADF;
  struct statfs file_system {};
  if (fstatfs(file.get(), &file_system) != 0) return errno;
  if (file_system.f_type == FUSE_SUPER_MAGIC) return EOPNOTSUPP;
  const std::string link = absl::StrCat("/proc/self/fd/", file.get());
  Fd path(open(link.c_str(), O_PATH | O_CLOEXEC));
  if (!path) return errno;
  struct stat status {};
  if (fstat(path.get(), &status) != 0) return errno;
  found.path = SideThread::MakeEndingOn(thread, std::move(path));
  found.file_system = status.st_dev;
  found.inode = status.st_ino;
  return 0;
}

int OpenMappedFile(const Lender& lender, const uroce_lend& request, Fd& file) {
  SharedMapping mapping;
  if (lender.pid == 0 || !ActFor(lender.user, kLookBehindMappings)) return EPERM;
  if (!FindMapping(lender, request, mapping)) return EACCES;
  const std::string link =
      absl::StrCat("/proc/", lender.pid, "/map_files/", absl::Hex(request.vma_start), "-",
                   absl::Hex(request.vma_end));
  const Fd found(open(link.c_str(), O_PATH | O_CLOEXEC));  // Located, but not opened yet.
  if (!found) return errno;
  struct stat status {};
  if (fstat(found.get(), &status) != 0) return errno;
  // The mapping may have changed between the two reads; opening a device may have effects.
  const bool is_same = status.st_dev == mapping.device && status.st_ino == mapping.inode;
  if (!is_same || !S_ISREG(status.st_mode)) return EACCES;
  const std::string path = absl::StrCat("/proc/self/fd/", found.get());
  file.Reset(open(path.c_str(), (request.writable != 0 ? O_RDWR : O_RDONLY) | O_CLOEXEC));
  return file ? 0 : errno;
}

}  // namespace uroce::nic
