// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program that writes to a pipe: sends it SIGINT in the moment before a write that
// blocks, once.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

static size_t bytes_of(const struct iovec* parts, int count) {
  size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += parts[i].iov_len;
  return bytes;
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  static int is_sent;
  int waiting_bytes = 0;
  const int pipe_bytes = fcntl(fd, F_GETPIPE_SZ);
  if (!is_sent && pipe_bytes > 0 && ioctl(fd, FIONREAD, &waiting_bytes) == 0 &&
      bytes_of(parts, count) > (size_t)(pipe_bytes - waiting_bytes)) {
    is_sent = 1;
    raise(SIGINT);
  }
  ssize_t (*next)(int, const struct iovec*, int);
  *(void**)&next = dlsym(RTLD_NEXT, "writev");
  return next(fd, parts, count);
}
