// SPDX-License-Identifier: Apache-2.0
#include "nic/control/socket_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "nic/control/served_socket.h"

namespace uroce::nic {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongestEnd{3};
constexpr std::chrono::milliseconds kLook{10};
constexpr int kLooks = 3;  // At a daemon that goes on, until it is believed.
constexpr char kOtherPlace[] =
    "; start it as root, set XDG_RUNTIME_DIR, or give a --socket in a directory of your own";

absl::StatusOr<Fd> Open(const std::string& path) {
  Fd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!lock) {
    return absl::Status(absl::ErrnoToStatusCode(errno),
                        absl::StrCat("--socket: ", path,
                                     ": cannot be opened: ", std::strerror(errno), kOtherPlace));
  }
  struct stat status {};
  if (fstat(lock.get(), &status) != 0 || status.st_uid != geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat("--socket: ", path, " belongs to user ", status.st_uid, kForeignFileRemedy));
  }
  return lock;
}

/// False too when the file that was opened is the one that a daemon removed at its end.
bool IsTaken(int fd) {
  struct stat status {};
  return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &status) == 0 && status.st_nlink != 0;
}

}  // namespace

absl::StatusOr<SocketLock> SocketLock::Take(const std::string& socket_path) {
  const std::string path = socket_path + ".lock";
  int served = 0;
  for (const Clock::time_point end = Clock::now() + kLongestEnd; Clock::now() < end;) {
    absl::StatusOr<Fd> fd = Open(path);
    if (!fd.ok()) return fd.status();
    if (IsTaken(fd->get())) return SocketLock(path, *std::move(fd));
    served = IsServed(socket_path) ? served + 1 : 0;
    if (served == kLooks) break;
    std::this_thread::sleep_for(kLook);
  }
  return absl::AlreadyExistsError(absl::StrCat("--socket: ", socket_path,
                                               ": another uroced serves it; stop that one, or give "
                                               "this one a --socket of its own"));
}

SocketLock::~SocketLock() {
  if (fd_) unlink(path_.c_str());
}

}  // namespace uroce::nic
