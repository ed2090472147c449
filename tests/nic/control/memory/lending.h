// SPDX-License-Identifier: Apache-2.0
// What a program lends the daemon on its second socket, for tests.
#pragma once

#include <sys/socket.h>

#include "pipeline/shm/abi/uroce_commands.h"
#include "tests/drivers/send_fd.h"

namespace uroce::nic {

/// Says something on a program's second socket, with an fd or without one (-1).
inline void SendLend(int socket, const uroce_lend& request, int fd, size_t bytes) {
  drivers::SendWithFd(socket, &request, bytes, fd, 0);
}

/// The same, and hears the answer.
inline uroce_lend_reply Lend(int socket, const uroce_lend& request, int fd,
                             size_t bytes = sizeof(uroce_lend)) {
  SendLend(socket, request, fd, bytes);
  uroce_lend_reply reply{.error = -1, .segment = 0, .offset = 0, .length = 0};
  recv(socket, &reply, sizeof(reply), 0);
  return reply;
}

/// A request that lends the memory of a process.
inline uroce_lend LendMemory() {
  return {.what = UROCE_LEND_MEMORY,
          .writable = 0,
          .vma_start = 0,
          .vma_end = 0,
          .offset = 0,
          .length = 0};
}

/// A request that lends bytes [offset, offset + length) of a file.
inline uroce_lend LendFile(uint64_t offset, uint64_t length, bool writable = true) {
  return {.what = UROCE_LEND_FILE,
          .writable = writable,
          .vma_start = 0,
          .vma_end = 0,
          .offset = offset,
          .length = length};
}

}  // namespace uroce::nic
