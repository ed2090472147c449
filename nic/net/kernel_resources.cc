// SPDX-License-Identifier: Apache-2.0
#include "nic/net/kernel_resources.h"

#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "nic/net/address.h"
#include "nic/net/netlink.h"

namespace uroce::nic {
namespace {

/// Empty if the name is in use, or there is no socket. `is_taken`: the name is in use.
Fd Sign(const AddressSigns::Place& place, int number, bool& is_taken) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name =
      absl::StrCat("uroced/address/", place.first, "/", FormatAddress(place.second), "/", number);
  static_assert(sizeof address.sun_path > 100, "a name has 15 + 11 + 40 + 2 bytes at most");
  std::ranges::copy(name, address.sun_path + 1);  // Behind a 0: no file.
  const auto length = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  // Nothing can be sent to a socket of connections that does not listen.
  Fd sign(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!sign) return sign;
  const auto* const at = reinterpret_cast<const sockaddr*>(&address);
  if (bind(sign.get(), at, static_cast<socklen_t>(length)) == 0) return sign;
  is_taken |= errno == EADDRINUSE;
  return {};
}

group_req RequestFor(int ifindex, const Gid& group) {
  group_req request{};
  request.gr_interface = static_cast<uint32_t>(ifindex);
  if (group.is_ipv4()) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    std::memcpy(&address.sin_addr, group.bytes.data() + 12, 4);
    std::memcpy(&request.gr_group, &address, sizeof(address));
    return request;
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  std::memcpy(&address.sin6_addr, group.bytes.data(), 16);
  std::memcpy(&request.gr_group, &address, sizeof(address));
  return request;
}

// One socket per group: the kernel limits the groups of a socket. No host sends to its port.
Fd Join(int ifindex, const Gid& group) {
  const bool is_ipv4 = group.is_ipv4();
  Fd fd(socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const group_req request = RequestFor(ifindex, group);
  const int level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
  if (fd && setsockopt(fd.get(), level, MCAST_JOIN_GROUP, &request, sizeof(request)) == 0) {
    return fd;
  }
  return Fd();
}

// A packet socket without a protocol receives nothing; its membership keeps the filter open.
Fd Filter(int ifindex, const Gid& group) {
  Fd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const Mac mac = MulticastMac(group);
  packet_mreq request{};
  request.mr_ifindex = ifindex;
  request.mr_type = PACKET_MR_MULTICAST;
  request.mr_alen = mac.size();
  std::copy(mac.begin(), mac.end(), request.mr_address);
  const int level = SOL_PACKET;
  if (fd && setsockopt(fd.get(), level, PACKET_ADD_MEMBERSHIP, &request, sizeof(request)) == 0) {
    return fd;
  }
  return Fd();
}

ifreq Request(const std::string& name) {
  ifreq request{};
  std::copy_n(name.begin(), std::min<size_t>(name.size(), IFNAMSIZ - 1), request.ifr_name);
  return request;
}

absl::Status Error(const std::string& name, absl::string_view step) {
  const int error = errno;
  if (error == EPERM || error == EACCES) {
    return absl::PermissionDeniedError(absl::StrCat(name, " needs the capability CAP_NET_ADMIN"));
  }
  if (error == EBUSY) {
    return absl::AlreadyExistsError(absl::StrCat(name, ": another program has it"));
  }
  if (error == EINVAL)
    return absl::InvalidArgumentError(absl::StrCat(name, " is there and no TAP"));
  return absl::InternalError(absl::StrCat(name, ": ", step, ": ", std::strerror(error)));
}

// The MAC is set first: some things that the kernel does when the link goes up depend on it.
absl::Status Configure(const std::string& name, const Mac& mac, uint32_t mtu_bytes) {
  const Fd kernel(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = Request(name);
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  std::memcpy(request.ifr_hwaddr.sa_data, mac.data(), mac.size());
  if (ioctl(kernel.get(), SIOCSIFHWADDR, &request) != 0) return Error(name, "MAC");
  request = Request(name);
  request.ifr_mtu = static_cast<int>(mtu_bytes);
  if (ioctl(kernel.get(), SIOCSIFMTU, &request) != 0) return Error(name, "MTU");
  request = Request(name);
  if (ioctl(kernel.get(), SIOCGIFFLAGS, &request) != 0) return Error(name, "flags");
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  if (ioctl(kernel.get(), SIOCSIFFLAGS, &request) != 0) return Error(name, "up");
  return absl::OkStatus();
}

}  // namespace

// All numbers are tried: one that ended has left a lower number free.
std::vector<AddressSigns::Place> AddressSigns::Show(const std::set<Place>& places) {
  std::erase_if(signs_, [&](const auto& sign) { return !places.contains(sign.first); });
  std::vector<Place> shared;
  for (const Place& place : places) {
    if (signs_.contains(place)) continue;
    Fd& own = signs_[place];
    bool is_taken = false;
    for (int number = 0; number < kNumbers; ++number) {
      Fd sign = Sign(place, number, is_taken);
      if (!own) own = std::move(sign);
    }
    if (is_taken) shared.push_back(place);
  }
  return shared;
}

absl::Status KernelGroups::Set(const std::set<Place>& wanted) {
  std::erase_if(joined_, [&wanted](const auto& entry) { return !wanted.contains(entry.first); });
  absl::Status status;
  for (const auto& [ifindex, group] : wanted) {
    if (joined_.contains({ifindex, group})) continue;
    Fd fd = how_ == How::kJoin ? Join(ifindex, group) : Filter(ifindex, group);
    if (fd) {
      joined_.emplace(Place{ifindex, group}, std::move(fd));
      continue;
    }
    status = absl::UnavailableError(absl::StrCat("group ", FormatAddress(group), " on interface ",
                                                 ifindex, ": ", std::strerror(errno)));
  }
  return status;
}

absl::StatusOr<Fd> OpenTap(const std::string& name, const Mac& mac, uint32_t mtu_bytes) {
  Fd tap(open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!tap) return Error(name, "/dev/net/tun");
  ifreq request = Request(name);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (ioctl(tap.get(), TUNSETIFF, &request) != 0) return Error(name, "open");
  const absl::Status status = Configure(name, mac, mtu_bytes);
  if (!status.ok()) return status;
  return tap;
}

absl::StatusOr<Fd> OpenAddressTap(const std::string& name, const Mac& mac, uint32_t mtu_bytes,
                                  const std::vector<InterfaceAddress>& addresses) {
  absl::StatusOr<Fd> tap = OpenTap(name, mac, mtu_bytes);
  if (!tap.ok()) return tap;
  Netlink netlink;
  const auto ifindex = static_cast<int>(if_nametoindex(name.c_str()));
  for (const InterfaceAddress& address : addresses) {
    const absl::Status status = netlink.AddAddress(ifindex, address);
    if (status.ok()) continue;
    return absl::Status(status.code(), absl::StrCat(name, ": ", status.message()));
  }
  return tap;
}

void SetTapCarrier(const Fd& tap, bool has_carrier) {
  int carrier = has_carrier ? 1 : 0;
  static_cast<void>(ioctl(tap.get(), TUNSETCARRIER, &carrier));
}

}  // namespace uroce::nic
