// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/process_files.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {
namespace {

struct Row {
  const char* path;
  int flags;
};
constexpr Row kRows[kProcessFiles] = {
    {"/proc/self/maps", O_RDONLY},    {"/proc/self/task", O_RDONLY | O_DIRECTORY},
    {"/proc/self/status", O_RDONLY},  {"/proc/self/mem", O_RDWR},
    {"/proc/self/pagemap", O_RDONLY}, {"/proc/self/fd", O_RDONLY | O_DIRECTORY}};

constinit KeptFile kept_files[kProcessFiles];

/// A process that has changed its user may not open its own memory, since that belongs to root then
/// (PR_SET_DUMPABLE of prctl(2)). The process makes itself dumpable for the time of the call. Other
/// processes of its new user could attach to it in this time.
int64_t Open(const Row& row) {
  const int64_t fd = OpenFile(row.path, row.flags | O_CLOEXEC);
  if (fd != -EACCES || SystemCall(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0) == 1) return fd;
  if (SystemCall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) return fd;
  const int64_t opened = OpenFile(row.path, row.flags | O_CLOEXEC);
  SystemCall(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
  return opened;
}

}  // namespace

bool KeptFile::Identify(int64_t fd) {
  struct stat status = {};
  if (SystemCall(SYS_fstat, fd, &status) != 0) return false;
  fd_ = fd;
  process_ = SystemCall(SYS_getpid);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  return true;
}

bool KeptFile::IsOpen() const {
  KeptFile now;
  return fd_ >= 0 && now.Identify(fd_) && now.device_ == device_ && now.inode_ == inode_;
}

int64_t KeptFile::Find() {
  if (IsOpen() && process_ == SystemCall(SYS_getpid)) return fd_;
  Close();
  return -1;
}

bool KeptFile::Keep(int64_t fd) {
  if (Identify(fd)) return true;
  SystemCall(SYS_close, fd);
  return false;
}

void KeptFile::Close() {
  if (IsOpen()) SystemCall(SYS_close, fd_);
  *this = {};
}

int64_t OpenProcessFile(ProcessFile file) {
  KeptFile& kept = kept_files[static_cast<int>(file)];
  const int64_t found = kept.Find();
  if (found >= 0) {
    SystemCall(SYS_lseek, found, 0, SEEK_SET);
    return found;
  }
  const int64_t fd = Open(kRows[static_cast<int>(file)]);
  if (fd < 0 || kept.Keep(fd)) return fd;
  return -EIO;
}

void KeepProcessFiles() {
  for (int file = 0; file < kProcessFiles; ++file) {
    (void)OpenProcessFile(static_cast<ProcessFile>(file));
  }
}

void ForgetProcessFiles() {
  for (KeptFile& kept : kept_files) kept.Close();
}

}  // namespace uroce::memory
