// SPDX-License-Identifier: Apache-2.0
#include "nic/control/control_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "nic/base/shared_memory.h"
#include "nic/base/side_thread.h"
#include "nic/base/stranger_socket.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::nic {
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
