// SPDX-License-Identifier: Apache-2.0
#include "drivers/kernel/kernel_interface.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pipeline/os/credentials.h"
#include "pipeline/os/fd.h"

namespace uroce::drivers {
namespace {

/// A socket for interface requests, which any kind of socket accepts.
class RequestSocket {
 public:
  bool Ask(unsigned long request, ifreq& question) const {
    return ioctl(fd_.get(), request, &question) == 0;
  }

 private:
  const Fd fd_{socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
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

/// The driver's name; "" when the kernel does not tell it.
std::string DriverOf(const RequestSocket& kernel, ifreq question) {
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  question.ifr_data = reinterpret_cast<char*>(&info);
  if (!kernel.Ask(SIOCETHTOOL, question)) return "";
  return {info.driver, strnlen(info.driver, sizeof info.driver)};
}

absl::Status Missing(const std::string& name) {
  if (errno == ENODEV || errno == ENXIO) {
    return absl::NotFoundError(
        absl::StrCat("there is no interface \"", name, "\" in this network namespace"));
  }
  return absl::InternalError(absl::StrCat("interface \"", name, "\": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<InterfaceState> ReadInterface(const std::string& name) {
  ifreq question{};
  if (name.empty() || name.size() >= sizeof question.ifr_name) {
    return absl::InvalidArgumentError(absl::StrCat("interface \"", name, "\": a name has 1 to ",
                                                   sizeof question.ifr_name - 1, " characters"));
  }
  std::copy(name.begin(), name.end(), question.ifr_name);
  const RequestSocket kernel;
  InterfaceState found;
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
  found.driver = DriverOf(kernel, question);
  return found;
}

// A line: "Node 0, zone   Normal  1282  4635  ...": how many blocks of 1, 2, 4, ... pages are free.
bool HasFreeBlocks(absl::string_view buddyinfo, uint64_t page_bytes) {
  constexpr uint64_t kBlockBytes = 64 << 10;
  constexpr uint64_t kEnoughBytes = 64 << 20;
  uint64_t bytes = 0;
  for (const absl::string_view line : absl::StrSplit(buddyinfo, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint64_t block_bytes = page_bytes;
    for (size_t i = 4; i < words.size(); ++i, block_bytes *= 2) {
      uint64_t blocks = 0;
      if (!absl::SimpleAtoi(words[i], &blocks)) return false;
      if (block_bytes >= kBlockBytes) bytes += blocks * block_bytes;
    }
  }
  return bytes >= kEnoughBytes;
}

bool HasFreeBlocks() {
  std::ifstream file("/proc/buddyinfo");
  return HasFreeBlocks(std::string(std::istreambuf_iterator<char>(file), {}),
                       static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
}

std::string EthtoolCommand(const std::string& interface, FlowControl flow_control) {
  const bool rx = flow_control == FlowControl::kRx || flow_control == FlowControl::kFull;
  const bool tx = flow_control == FlowControl::kTx || flow_control == FlowControl::kFull;
  return absl::StrCat("ethtool -A ", interface, " rx ", rx ? "on" : "off", " tx ",
                      tx ? "on" : "off");
}

absl::Status CheckRights(absl::string_view device, absl::string_view what,
                         std::initializer_list<Need> needs) {
  for (const Need& need : needs) {
    if (HasCapability(need.capability)) continue;
    return absl::PermissionDeniedError(
        absl::StrCat("dev \"", device, "\": ", what, " needs the capability ", need.name));
  }
  return absl::OkStatus();
}

absl::Status CheckInterface(absl::string_view device, const std::string& interface,
                            const PortOptions& options, std::initializer_list<Need> needs) {
  const std::string who = absl::StrCat("dev \"", device, "\": ");
  const absl::StatusOr<InterfaceState> state = ReadInterface(interface);
  if (!state.ok()) {
    return absl::Status(state.status().code(), absl::StrCat(who, state.status().message()));
  }
  if (options.flow_control) {
    return absl::InvalidArgumentError(absl::StrCat(
        who, "flow-control=", NameOf(*options.flow_control), ": the kernel sets that of ",
        interface, "; ", EthtoolCommand(interface, *options.flow_control)));
  }
  absl::Status rights = CheckRights(device, absl::StrCat("iface=", interface), needs);
  if (!rights.ok() || options.mtu_bytes <= state->mtu_bytes) return rights;
  return absl::InvalidArgumentError(
      absl::StrCat(who, "mtu=", options.mtu_bytes, " is more than the ", state->mtu_bytes, " of ",
                   interface, "; ip link set ", interface, " mtu ", options.mtu_bytes));
}

}  // namespace uroce::drivers
