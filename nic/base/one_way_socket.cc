// SPDX-License-Identifier: Apache-2.0
#include "nic/base/one_way_socket.h"

#include <sys/socket.h>

#include <cerrno>

#include "nic/base/shared_memory.h"

namespace uroce {

// Data that a program sent here would stay until the daemon closes the socket, with fds in it.
absl::StatusOr<Fd> MakeOneWaySocket(Fd& reader) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError("socketpair", errno);
  }
  reader.Reset(ends[0]);
  Fd writer(ends[1]);
  if (shutdown(writer.get(), SHUT_RD) != 0) return SystemError("shutdown", errno);
  return writer;
}

}  // namespace uroce
