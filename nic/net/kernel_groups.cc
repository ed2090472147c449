// SPDX-License-Identifier: Apache-2.0
#include "nic/net/kernel_groups.h"

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "nic/net/address.h"

namespace uroce::nic {
namespace {

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

// One socket per group: the kernel limits the groups of a socket. Nobody sends to its port.
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

}  // namespace

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

}  // namespace uroce::nic
