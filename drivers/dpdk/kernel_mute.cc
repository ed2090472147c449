// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/kernel_mute.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace uroce::drivers {
namespace {

constexpr uint16_t kRoceUdpPort = 4791;

template <typename Value>
bool Set(int fd, int level, int option, const Value& value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/// A filter of one instruction: keep 0 bytes.
bool DropEverything(int fd) {
  sock_filter keep_nothing = {.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0};
  const sock_fprog program = {.len = 1, .filter = &keep_nothing};
  return Set(fd, SOL_SOCKET, SO_ATTACH_FILTER, program);
}

bool BindTo(int fd, int family) {
  if (family == AF_INET) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(kRoceUdpPort);
    return bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
  }
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(kRoceUdpPort);
  return bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
}

/// The filter is attached before the UDP port is bound, so that nothing is ever queued.
bool Configure(int fd, int family, const std::string& interface) {
  const int on = 1;
  if (!Set(fd, SOL_SOCKET, SO_REUSEADDR, on)) return false;
  if (!Set(fd, SOL_SOCKET, SO_REUSEPORT, on)) return false;
  if (family == AF_INET6 && !Set(fd, IPPROTO_IPV6, IPV6_V6ONLY, on)) return false;
  if (!DropEverything(fd)) return false;
  // Without it the kernel cuts a superframe into packets before it drops each. Linux 5.0.
  static_cast<void>(Set(fd, IPPROTO_UDP, UDP_GRO, on));
  const auto length = static_cast<socklen_t>(interface.size());
  if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface.data(), length) != 0) return false;
  return BindTo(fd, family);
}

}  // namespace

absl::StatusOr<KernelMute> KernelMute::Open(const std::string& interface) {
  KernelMute mute;
  for (const int family : {AF_INET, AF_INET6}) {
    const int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 && errno == EAFNOSUPPORT) continue;  // No IPv6 here: no answers over it.
    if (fd >= 0) mute.fds_.push_back(fd);
    if (fd >= 0 && Configure(fd, family, interface)) continue;
    if (errno == EADDRINUSE || errno == EADDRNOTAVAIL) continue;
    return absl::InternalError(absl::StrCat("UDP port ", kRoceUdpPort, " on interface \"",
                                            interface, "\": ", std::strerror(errno)));
  }
  return mute;
}

KernelMute::~KernelMute() {
  for (const int fd : fds_) close(fd);
}

}  // namespace uroce::drivers
