// SPDX-License-Identifier: Apache-2.0
// A program as the daemon sees it, for tests: it says what it likes on the control socket.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>
#include <vector>

#include "pipeline/os/fd.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

struct Answer {
  bool hung_up = false;
  int error = 0;
  std::string text;
  std::vector<uint8_t> body;
  std::vector<Fd> fds;

  template <typename T>
  T As(size_t index = 0) const {
    T value{};
    if (body.size() >= (index + 1) * sizeof(T)) {
      std::memcpy(&value, body.data() + index * sizeof(T), sizeof(T));
    }
    return value;
  }
  uint32_t handle() const { return As<uroce_handle>().handle; }
};

class ControlClient {
 public:
  explicit ControlClient(const std::string& path)
      : socket_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    connected_ =
        connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }

  bool connected() const { return connected_; }
  int socket_fd() const { return socket_.get(); }

  Answer Raw(const void* datagram, size_t bytes) {
    send(socket_.get(), datagram, bytes, MSG_NOSIGNAL);
    return Receive();
  }
  template <typename T>
  Answer Call(uint32_t command, const T& body, const std::vector<uint8_t>& tail = {}) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&body);
    std::vector<uint8_t> all(bytes, bytes + sizeof(body));
    all.insert(all.end(), tail.begin(), tail.end());
    return CallBytes(command, all);
  }
  Answer CallBytes(uint32_t command, const std::vector<uint8_t>& body) {
    Post(command, body);
    return Receive();
  }
  /// Says it without waiting for an answer.
  void Post(uint32_t command, const std::vector<uint8_t>& body) {
    const auto size = static_cast<uint32_t>(sizeof(uroce_request) + body.size());
    const uroce_request header{command, size};
    const auto* bytes = reinterpret_cast<const uint8_t*>(&header);
    std::vector<uint8_t> datagram(bytes, bytes + sizeof(header));
    datagram.insert(datagram.end(), body.begin(), body.end());
    send(socket_.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  Answer Call(uint32_t command) { return CallBytes(command, {}); }
  Answer Handle(uint32_t command, uint32_t handle) {
    return Call(command, uroce_handle{handle, 0});
  }
  Answer Hello() { return Call(UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION, 0}); }
  /// The next answer. With MSG_DONTWAIT in `flags`: hung_up also where there is none yet.
  Answer Receive(int flags = 0) {
    static thread_local std::vector<uint8_t> datagram(64 << 10);
    iovec part{datagram.data(), datagram.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 80)];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | flags);
    Answer answer;
    uroce_reply header;
    if (got < static_cast<ssize_t>(sizeof(header))) {
      answer.hung_up = true;
      return answer;
    }
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
        answer.fds.emplace_back(fd);
      }
    }
    std::memcpy(&header, datagram.data(), sizeof(header));
    answer.error = header.error;
    answer.text = header.text;
    answer.hung_up = header.size != static_cast<size_t>(got);
    answer.body.assign(datagram.begin() + sizeof(header), datagram.begin() + got);
    return answer;
  }

 private:
  Fd socket_;
  bool connected_ = false;
};

}  // namespace uroce::nic
