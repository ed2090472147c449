// SPDX-License-Identifier: Apache-2.0
// Preloaded into uroced: a kernel that has no program to choose among sockets of one UDP port, as
// kernels of sandboxes.
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int setsockopt(int fd, int level, int option, const void* value, socklen_t length) {
  if (level == SOL_SOCKET && option == SO_ATTACH_REUSEPORT_CBPF) {
    errno = ENOPROTOOPT;
    return -1;
  }
  return (int)syscall(SYS_setsockopt, fd, level, option, value, length);
}
