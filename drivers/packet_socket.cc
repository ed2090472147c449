// SPDX-License-Identifier: Apache-2.0
#include "drivers/packet_socket.h"

#include <linux/if_packet.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"

namespace uroce::drivers {
namespace {

bool IsPacketSocketOn(int fd, int ifindex) {
  sockaddr_ll address{};
  socklen_t length = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return false;
  return address.sll_family == AF_PACKET && address.sll_ifindex == ifindex;
}

}  // namespace

std::vector<int> PacketSocketsOn(int ifindex) {
  std::vector<int> sockets;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    int fd = -1;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &fd)) continue;
    if (IsPacketSocketOn(fd, ifindex)) sockets.push_back(fd);
  }
  std::sort(sockets.begin(), sockets.end());
  return sockets;
}

}  // namespace uroce::drivers
