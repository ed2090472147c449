// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/kernel_interface.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
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

}  // namespace uroce::drivers
