// SPDX-License-Identifier: Apache-2.0
// What a program lends the daemon on its second socket, for tests.
#pragma once

#include <sys/socket.h>

#include <cstring>

#include "verbs-shim/abi/uroce_commands.h"

namespace uroce::nic {

/// Says something on a program's second socket, with an fd or without one (-1).
inline void SendLend(int socket, const uroce_lend& request, int fd, size_t bytes) {
  iovec part{const_cast<uroce_lend*>(&request), bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    *rights = {
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
  }
  sendmsg(socket, &message, 0);
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
