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
constexpr Row kRows[kProcessFiles] = {{"/proc/self/maps", O_RDONLY},
                                      {"/proc/self/task", O_RDONLY | O_DIRECTORY},
                                      {"/proc/self/status", O_RDONLY},
                                      {"/proc/self/mem", O_RDWR}};

struct KeptFile {
  int64_t fd = -1;
  int64_t process = 0;  // whose file it is
  uint64_t device = 0;
  uint64_t inode = 0;
};
constinit KeptFile kept_files[kProcessFiles];

/// No other file has this identity while the file is open.
bool Identify(int64_t fd, KeptFile& file) {
  struct stat status = {};
  if (SystemCall(SYS_fstat, fd, &status) != 0) return false;
  file = {
      .fd = fd, .process = SystemCall(SYS_getpid), .device = status.st_dev, .inode = status.st_ino};
  return true;
}

/// Whether the number is still that of the kept file: the program may have closed it.
bool IsOpen(const KeptFile& file) {
  KeptFile now;
  return file.fd >= 0 && Identify(file.fd, now) && now.device == file.device &&
         now.inode == file.inode;
}

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

int64_t OpenProcessFile(ProcessFile file) {
  KeptFile& kept = kept_files[static_cast<int>(file)];
  if (IsOpen(kept)) {
    if (kept.process == SystemCall(SYS_getpid)) {
      SystemCall(SYS_lseek, kept.fd, 0, SEEK_SET);
      return kept.fd;
    }
    SystemCall(SYS_close, kept.fd);  // The file of the process that this one was cloned from.
  }
  kept = {};
  const int64_t fd = Open(kRows[static_cast<int>(file)]);
  if (fd < 0) return fd;
  if (Identify(fd, kept)) return fd;
  SystemCall(SYS_close, fd);
  return -EIO;
}

void KeepProcessFiles() {
  for (int file = 0; file < kProcessFiles; ++file) {
    (void)OpenProcessFile(static_cast<ProcessFile>(file));
  }
}

void ForgetProcessFiles() {
  for (KeptFile& kept : kept_files) {
    if (IsOpen(kept)) SystemCall(SYS_close, kept.fd);
    kept = {};
  }
}

}  // namespace uroce::memory
