// SPDX-License-Identifier: Apache-2.0
// An fd that an untrusted program would hand over: a thread that closes it hangs.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>

#include "pipeline/os/fd.h"

namespace uroce::drivers {

/// A TCP socket whose close takes minutes, and its peer, at whose end it ends too.
struct StuckFd {
  StuckFd() {
    const Fd listener(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length);
    listen(listener.get(), 1);
    getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length);
    fd.Reset(socket(AF_INET, SOCK_STREAM, 0));
    connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length);
    peer.Reset(accept(listener.get(), nullptr, nullptr));
    const linger minutes{.l_onoff = 1, .l_linger = 600};
    setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &minutes, sizeof(minutes));
    const std::array<char, 65536> bytes{};
    while (send(fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) continue;
  }
  Fd fd, peer;
};

}  // namespace uroce::drivers
