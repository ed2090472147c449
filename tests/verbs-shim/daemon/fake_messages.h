// SPDX-License-Identifier: Apache-2.0
// What the fake daemon sends and receives: datagrams with fds, files in memory.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::shim_test {

/// With at most 100 fds, which stay the caller's.
inline void SendReply(int client, const std::vector<uint8_t>& bytes, const std::vector<int>& fds) {
  iovec part = {const_cast<uint8_t*>(bytes.data()), bytes.size()};
  constexpr size_t kMaxFds = 100;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  (void)sendmsg(client, &message, MSG_NOSIGNAL);
}

/// Memory as the daemon hands it out.
inline int MakeSealedFile(const char* name, uint64_t size_bytes) {
  const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (ftruncate(fd, static_cast<off_t>(size_bytes)) != 0) std::abort();
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) std::abort();
  return fd;
}

/// False: the client is gone, or says what is no request.
inline bool ReceiveRequest(int client, int flags, uint32_t& command, std::vector<uint8_t>& body) {
  std::vector<uint8_t> buffer(1 << 16);
  const ssize_t received = recv(client, buffer.data(), buffer.size(), flags);
  if (received < static_cast<ssize_t>(sizeof(uroce_request))) return false;
  uroce_request header;
  memcpy(&header, buffer.data(), sizeof(header));
  if (header.size != static_cast<uint32_t>(received)) return false;
  command = header.command;
  body.assign(buffer.begin() + sizeof(header), buffer.begin() + received);
  return true;
}

}  // namespace uroce::shim_test
