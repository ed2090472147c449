// SPDX-License-Identifier: Apache-2.0
// A network interface that the kernel and the daemon share: its state, keeping the kernel from
// answering its RoCE packets, and the frames that packet sockets had no room for. Control thread.
#include "drivers/kernel/kernel_interface.h"

#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace uroce::drivers {
namespace {

/// A socket for interface requests, which any kind of socket accepts.
class RequestSocket {
 public:
  RequestSocket() : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}
  ~RequestSocket() {
    if (fd_ >= 0) close(fd_);
  }
  RequestSocket(const RequestSocket&) = delete;
  RequestSocket& operator=(const RequestSocket&) = delete;
  bool Ask(unsigned long request, ifreq& question) const {
    return ioctl(fd_, request, &question) == 0;
  }

 private:
  int fd_;
};

/// The speed of the interface; 0 when the driver does not tell it.
uint64_t SpeedOf(const RequestSocket& kernel, ifreq question) {
  ethtool_cmd command{};
  command.cmd = ETHTOOL_GSET;
  question.ifr_data = reinterpret_cast<char*>(&command);
  if (!kernel.Ask(SIOCETHTOOL, question)) return 0;
  const uint32_t mbps = ethtool_cmd_speed(&command);
  return mbps == static_cast<uint32_t>(SPEED_UNKNOWN) ? 0 : uint64_t{mbps} * 1'000'000;
}

absl::Status Missing(const std::string& name) {
  if (errno == ENODEV || errno == ENXIO) {
    return absl::NotFoundError(
        absl::StrCat("there is no interface \"", name, "\" in this network namespace"));
  }
  return absl::InternalError(absl::StrCat("interface \"", name, "\": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<KernelInterface> ReadKernelInterface(const std::string& name) {
  ifreq question{};
  if (name.empty() || name.size() >= sizeof question.ifr_name) {
    return absl::InvalidArgumentError(absl::StrCat("interface \"", name, "\": a name has 1 to ",
                                                   sizeof question.ifr_name - 1, " characters"));
  }
  std::copy(name.begin(), name.end(), question.ifr_name);
  const RequestSocket kernel;
  KernelInterface found;
  found.name = name;
  if (!kernel.Ask(SIOCGIFINDEX, question)) return Missing(name);
  found.ifindex = question.ifr_ifindex;
  if (!kernel.Ask(SIOCGIFHWADDR, question)) return Missing(name);
  std::memcpy(found.mac.data(), question.ifr_hwaddr.sa_data, found.mac.size());
  if (!kernel.Ask(SIOCGIFMTU, question)) return Missing(name);
  found.mtu_bytes = static_cast<uint32_t>(question.ifr_mtu);
  if (!kernel.Ask(SIOCGIFFLAGS, question)) return Missing(name);
  found.link_up = (question.ifr_flags & IFF_UP) != 0 && (question.ifr_flags & IFF_RUNNING) != 0;
  found.speed_bps = SpeedOf(kernel, question);
  return found;
}

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

uint64_t PacketDrops::Count() {
  for (const int socket : sockets_) {
    tpacket_stats stats{};
    socklen_t length = sizeof stats;
    if (getsockopt(socket, SOL_PACKET, PACKET_STATISTICS, &stats, &length) == 0) {
      total_ += stats.tp_drops;
    }
  }
  return total_;
}

}  // namespace uroce::drivers
