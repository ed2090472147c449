// SPDX-License-Identifier: Apache-2.0
#include "nic/net/tap_interface.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "nic/net/netlink.h"

namespace uroce::nic {
namespace {

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
