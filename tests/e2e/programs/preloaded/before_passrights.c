// SPDX-License-Identifier: Apache-2.0
// Preloaded into uroced: a kernel before Linux 6.16, which cannot refuse fds.
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kPassRights = 83 };  // SO_PASSRIGHTS

int setsockopt(int socket, int level, int name, const void* value, socklen_t length) {
  if (level == SOL_SOCKET && name == kPassRights) {
    errno = ENOPROTOOPT;
    return -1;
  }
  return (int)syscall(SYS_setsockopt, socket, level, name, value, length);
}
