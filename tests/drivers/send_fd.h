// SPDX-License-Identifier: Apache-2.0
// A message on a socket of the local kind, for tests.
#pragma once

#include <sys/socket.h>

#include <cstring>

namespace uroce::drivers {

/// Sends `length` bytes, and with them an fd unless it is -1. As sendmsg(2).
inline ssize_t SendWithFd(int socket, const void* bytes, size_t length, int fd, int flags) {
  iovec part{const_cast<void*>(bytes), length};
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
  return sendmsg(socket, &message, flags);
}

}  // namespace uroce::drivers
