// SPDX-License-Identifier: Apache-2.0
// Owners of file descriptors and of mappings; sets of file descriptors; standard input and output
// that the caller has closed.
#include "pipeline/os/fd.h"

#include <fcntl.h>
#include <unistd.h>

namespace uroce {

void TakeClosedStandardFds() {
  // From 0 on, so that the lowest free number is the one that is meant.
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    const int mode = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    [[maybe_unused]] const int opened = open("/dev/null", mode | O_CLOEXEC);
  }
}

}  // namespace uroce
