// SPDX-License-Identifier: Apache-2.0
#include "drivers/memif/memif_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "nic/base/unix_socket_path.h"

namespace uroce::drivers {
namespace {

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  return address;
}

Fd NewSocket() { return Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

absl::Status Bad(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("socket=", why));
}

}  // namespace

absl::Status CheckMemifDirectory(const std::string& path) {
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (directory.empty() || std::filesystem::is_directory(directory, error)) {
    return absl::OkStatus();
  }
  return Bad(absl::StrCat(path, ": no directory ", directory.string()));
}

absl::StatusOr<Fd> ListenForMemif(const std::string& path) {
  if (absl::Status status = PrepareServerPath(path); !status.ok()) return Bad(status.message());
  constexpr int kBacklog = 8;
  Fd listener = NewSocket();
  const sockaddr_un address = AddressOf(path);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.get(), kBacklog) != 0) {
    return Bad(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  return listener;
}

Fd ConnectMemif(const std::string& path) {
  Fd fd = NewSocket();
  const sockaddr_un address = AddressOf(path);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    fd.Reset();
  }
  return fd;
}

Fd AcceptMemif(int listener) {
  return Fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

}  // namespace uroce::drivers
