// SPDX-License-Identifier: Apache-2.0
#include "nic/base/unix_socket_path.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace uroce {
namespace {

absl::Status Bad(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

absl::Status CheckLength(const std::string& path) {
  constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (!path.empty() && path.size() <= kLongest) return absl::OkStatus();
  return Bad(path, absl::StrCat("the path of a socket has 1 to ", kLongest, " bytes"));
}

/// Returns 0, or the errno for which no connection can be made.
int ConnectError(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  const int error = connect(fd, generic, sizeof(address)) == 0 ? 0 : errno;
  close(fd);
  return error;
}

absl::Status CheckDirectory(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string directory = parent.empty() ? std::string(1, '.') : parent.string();
  struct stat status {};
  if (stat(directory.c_str(), &status) != 0) {
    return Bad(path, absl::StrCat("the directory ", directory, ": ", std::strerror(errno)));
  }
  if (!S_ISDIR(status.st_mode)) return Bad(path, absl::StrCat(directory, " is no directory"));
  if (access(directory.c_str(), W_OK) == 0) return absl::OkStatus();
  return Bad(path, absl::StrCat("the directory ", directory, ": ", std::strerror(errno)));
}

}  // namespace

absl::Status PrepareServerPath(const std::string& path) {
  if (absl::Status status = CheckLength(path); !status.ok()) return status;
  if (absl::Status status = CheckDirectory(path); !status.ok()) return status;
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return absl::OkStatus();
  if (!S_ISSOCK(status.st_mode)) return Bad(path, "exists and is no socket");
  // A full backlog also means that somebody listens.
  if (ConnectError(path) != ECONNREFUSED) return Bad(path, "somebody listens there already");
  if (unlink(path.c_str()) == 0) return absl::OkStatus();
  return Bad(path, absl::StrCat("left behind, cannot be removed: ", std::strerror(errno)));
}

absl::Status CheckServerListens(const std::string& path) {
  if (absl::Status status = CheckLength(path); !status.ok()) return status;
  const int error = ConnectError(path);
  if (error == 0) return absl::OkStatus();
  return Bad(path, absl::StrCat("nobody listens there (", std::strerror(error),
                                "); start that side first"));
}

}  // namespace uroce
