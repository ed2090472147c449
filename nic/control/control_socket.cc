// SPDX-License-Identifier: Apache-2.0
// The socket that programs connect to, and the lock file beside it, which says that a daemon serves
// the socket.
#include "nic/control/control_socket.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/shared_memory.h"
#include "pipeline/os/side_thread.h"
#include "pipeline/os/unix_socket.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::nic {
namespace {

/// What to do about a file of another user at the path of the socket or of its lock.
constexpr char kForeignFileRemedy[] =
    "; remove it, or give a --socket in a directory where no other user makes files";

constexpr uint64_t Bit(int signal) { return uint64_t{1} << (signal - 1); }
constexpr uint64_t kEnds = Bit(SIGTERM) | Bit(SIGINT) | Bit(SIGKILL);

// Of /proc/PID/stat (proc(5)), behind the name. The kernel sets PF_EXITING before it closes files,
// and after it has taken a SIGKILL from those that are pending.
constexpr size_t kFlags = 6;
constexpr uint32_t kExiting = 0x4;

/// The listener's process; 0 if there is none, or none that this namespace knows.
pid_t ListenerOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return 0;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return 0;
  }
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length);
  return credentials.pid;
}

std::string Text(pid_t pid, const char* name) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/", name));
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Whether one of the signals that end the daemon waits to be taken.
bool IsToldToEnd(const std::string& status) {
  for (const absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::StartsWith(line, "SigPnd:") && !absl::StartsWith(line, "ShdPnd:")) continue;
    uint64_t pending = 0;
    if (!absl::SimpleHexAtoi(line.substr(line.find('\t') + 1), &pending)) return true;
    if ((pending & kEnds) != 0) return true;
  }
  return status.empty();  // It has ended, or nothing is known of it.
}

bool IsExiting(const std::string& stat) {
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(stat.rfind(')') + 1), ' ', absl::SkipEmpty());
  uint32_t flags = 0;
  if (fields.size() <= kFlags || !absl::SimpleAtoi(fields[kFlags], &flags)) return true;
  return (flags & kExiting) != 0;
}

}  // namespace

bool IsServed(const std::string& path) {
  const pid_t pid = ListenerOf(path);
  if (pid == 0 || IsToldToEnd(Text(pid, "status")) || IsExiting(Text(pid, "stat"))) return false;
  return access(path.c_str(), F_OK) == 0;  // Looked at last, as it is removed first.
}

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
                                               "this one its own --socket"));
}

SocketLock::~SocketLock() {
  if (fd_) unlink(path_.c_str());
}

namespace {

constexpr int kBacklog = 128;

absl::Status Complain(const std::string& path, absl::string_view what, int error) {
  return absl::Status(absl::ErrnoToStatusCode(error),
                      absl::StrCat("--socket: ", path, ": ", what, ": ", std::strerror(error)));
}

void MakeDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash != 0) mkdir(path.substr(0, slash).c_str(), 0755);
}

absl::StatusOr<Fd> BindSocket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return Complain(path, "too long", ENAMETOOLONG);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Fd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return SystemError("socket", errno);
  unlink(path.c_str());
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return Complain(path, "cannot be bound", errno);
  }
  chmod(path.c_str(), 0666);  // Programs of every user may connect; limits are per user.
  RefuseFds(listener.get());
  if (listen(listener.get(), kBacklog) != 0) return Complain(path, "cannot listen", errno);
  return listener;
}

}  // namespace

absl::StatusOr<ControlSocket> ControlSocket::Listen(const std::string& path) {
  if (struct stat status{}; stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--socket: ", path, " is a directory; name a file in it, such as ", path, "/uroced.sock"));
  }
  MakeDirectoryOf(path);
  absl::StatusOr<SocketLock> lock = SocketLock::Take(path);
  if (!lock.ok()) return lock.status();
  absl::StatusOr<OwnTree> tree = OwnTree::Make(path + UROCE_TREE_SUFFIX);
  if (!tree.ok()) {
    return absl::Status(tree.status().code(),
                        absl::StrCat("--socket: ", tree.status().message(), kForeignFileRemedy));
  }
  absl::StatusOr<Fd> listener = BindSocket(path);
  if (!listener.ok()) return listener.status();
  return ControlSocket(path, *std::move(lock), *std::move(tree), *std::move(listener));
}

ControlSocket::ControlSocket(std::string path, SocketLock lock, OwnTree tree, Fd listener)
    : path_(std::move(path)),
      lock_(std::move(lock)),
      tree_(std::move(tree)),
      listener_(std::move(listener)) {}

void ControlSocket::Retire() { unlink(path_.c_str()); }

// The socket is removed first: another daemon that finds the lock free may create its own.
ControlSocket::~ControlSocket() {
  if (!listener_) return;
  Retire();
  // Closing also drops waiting connections, and what clients sent on them.
  SideThread().End(std::make_shared<Fd>(std::move(listener_)));
}

}  // namespace uroce::nic
