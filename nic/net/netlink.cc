// SPDX-License-Identifier: Apache-2.0
#include "nic/net/netlink.h"

#include <arpa/inet.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "nic/net/address.h"

namespace uroce::nic {
namespace {

constexpr uint16_t kDiscardPort = 9;
constexpr uint16_t kKnownStates =
    NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE;

uint8_t FamilyOf(const Gid& gid) { return gid.is_ipv4() ? AF_INET : AF_INET6; }
const uint8_t* AddressBytes(const Gid& gid) { return gid.bytes.data() + (gid.is_ipv4() ? 12 : 0); }
uint16_t AddressLength(const Gid& gid) { return gid.is_ipv4() ? 4 : 16; }

}  // namespace

/// One message under construction.
struct Netlink::Request {
  alignas(8) uint8_t bytes[256] = {};

  Request(uint16_t type, uint16_t flags, const void* header, size_t header_bytes) {
    message()->nlmsg_type = type;
    message()->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
    message()->nlmsg_len = static_cast<uint32_t>(NLMSG_LENGTH(header_bytes));
    std::memcpy(bytes + NLMSG_HDRLEN, header, header_bytes);
  }
  nlmsghdr* message() { return reinterpret_cast<nlmsghdr*>(bytes); }
  void Add(uint16_t type, const void* value, uint16_t length) {
    auto* attribute = reinterpret_cast<rtattr*>(bytes + NLMSG_ALIGN(message()->nlmsg_len));
    attribute->rta_type = type;
    attribute->rta_len = static_cast<uint16_t>(RTA_LENGTH(length));
    std::memcpy(RTA_DATA(attribute), value, length);
    message()->nlmsg_len =
        static_cast<uint32_t>(NLMSG_ALIGN(message()->nlmsg_len) + RTA_ALIGN(attribute->rta_len));
  }
  void Add(uint16_t type, const Gid& gid) { Add(type, AddressBytes(gid), AddressLength(gid)); }
};

/// The kernel's word, or its errno.
struct Netlink::Answer {
  alignas(8) uint8_t bytes[4096];
  size_t length = 0;
  int error = 0;

  const nlmsghdr* message() const { return reinterpret_cast<const nlmsghdr*>(bytes); }
  template <typename T>
  const T& header() const {
    return *reinterpret_cast<const T*>(bytes + NLMSG_HDRLEN);
  }
  /// The value of the attribute of this type and length behind a header of `header_bytes`.
  const uint8_t* Find(uint16_t type, size_t header_bytes, size_t value_bytes) const {
    size_t at = NLMSG_HDRLEN + NLMSG_ALIGN(header_bytes);
    while (at + sizeof(rtattr) <= length) {
      const auto* attribute = reinterpret_cast<const rtattr*>(bytes + at);
      if (attribute->rta_len < sizeof(rtattr) || at + attribute->rta_len > length) return nullptr;
      if (attribute->rta_type == type && attribute->rta_len == RTA_LENGTH(value_bytes)) {
        return bytes + at + RTA_LENGTH(0);
      }
      at += RTA_ALIGN(attribute->rta_len);
    }
    return nullptr;
  }
};

Netlink::Netlink() : socket_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {
  // The kernel answers at once; this is for the day on which it does not.
  const timeval patience{.tv_sec = 0, .tv_usec = 100'000};
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

bool Netlink::Ask(Request& request, Answer& answer) {
  request.message()->nlmsg_seq = ++sequence_;
  if (send(socket_.get(), request.bytes, request.message()->nlmsg_len, 0) < 0) {
    answer.error = errno;
    return false;
  }
  do {  // Answers to earlier questions that came too late are passed over.
    const ssize_t got = recv(socket_.get(), answer.bytes, sizeof(answer.bytes), 0);
    if (got < static_cast<ssize_t>(sizeof(nlmsghdr))) {
      answer.error = got < 0 ? errno : EIO;
      return false;
    }
    answer.length = std::min(static_cast<size_t>(got), size_t{answer.message()->nlmsg_len});
  } while (answer.message()->nlmsg_seq != sequence_);
  if (answer.message()->nlmsg_type != NLMSG_ERROR) return true;
  answer.error = -answer.header<nlmsgerr>().error;
  return answer.error == 0;
}

absl::StatusOr<Gid> Netlink::NextHop(int ifindex, const Gid& destination) {
  rtmsg header{};
  header.rtm_family = FamilyOf(destination);
  header.rtm_dst_len = static_cast<uint8_t>(8 * AddressLength(destination));
  Request request(RTM_GETROUTE, 0, &header, sizeof(header));
  request.Add(RTA_DST, destination);
  request.Add(RTA_OIF, &ifindex, sizeof(ifindex));
  Answer answer;
  if (!Ask(request, answer)) {
    return absl::UnavailableError(absl::StrCat("no route to ", FormatAddress(destination), ": ",
                                               std::strerror(answer.error)));
  }
  if (answer.header<rtmsg>().rtm_type != RTN_UNICAST) {
    return absl::UnavailableError(
        absl::StrCat("the route to ", FormatAddress(destination), " is not one to a neighbour"));
  }
  const uint8_t* gateway = answer.Find(RTA_GATEWAY, sizeof(rtmsg), AddressLength(destination));
  if (gateway == nullptr) return destination;
  Gid hop = destination;  // Keeps the family.
  std::memcpy(hop.bytes.data() + (hop.is_ipv4() ? 12 : 0), gateway, AddressLength(hop));
  return hop;
}

std::optional<Mac> Netlink::Neighbour(int ifindex, const Gid& address) {
  ndmsg header{};
  header.ndm_family = FamilyOf(address);
  header.ndm_ifindex = ifindex;
  Request request(RTM_GETNEIGH, 0, &header, sizeof(header));
  request.Add(NDA_DST, address);
  Answer answer;
  if (!Ask(request, answer)) return std::nullopt;
  if ((answer.header<ndmsg>().ndm_state & kKnownStates) == 0) return std::nullopt;
  const uint8_t* bytes = answer.Find(NDA_LLADDR, sizeof(ndmsg), sizeof(Mac));
  if (bytes == nullptr) return std::nullopt;
  Mac mac;
  std::memcpy(mac.data(), bytes, mac.size());
  return mac;
}

void Netlink::Probe(int ifindex, const Gid& address) {
  ndmsg header{};
  header.ndm_family = FamilyOf(address);
  header.ndm_ifindex = ifindex;
  header.ndm_state = NUD_NONE;
  header.ndm_flags = NTF_USE;
  Request request(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK, &header, sizeof(header));
  request.Add(NDA_DST, address);
  Answer answer;
  if (Ask(request, answer)) return;
  const Fd probe(socket(FamilyOf(address), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  char interface[IF_NAMESIZE] = "";
  if_indextoname(static_cast<uint32_t>(ifindex), interface);
  setsockopt(probe.get(), SOL_SOCKET, SO_BINDTODEVICE, interface, sizeof(interface));
  if (address.is_ipv4()) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(kDiscardPort);
    std::memcpy(&to.sin_addr, AddressBytes(address), 4);
    sendto(probe.get(), nullptr, 0, MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&to), sizeof(to));
  } else {
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(kDiscardPort);
    to.sin6_scope_id = static_cast<uint32_t>(ifindex);
    std::memcpy(&to.sin6_addr, AddressBytes(address), 16);
    sendto(probe.get(), nullptr, 0, MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&to), sizeof(to));
  }
}

Fd OpenNetlinkWatch() {
  Fd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl groups{};
  groups.nl_family = AF_NETLINK;
  groups.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!fd || bind(fd.get(), reinterpret_cast<sockaddr*>(&groups), sizeof(groups)) != 0) return Fd();
  return fd;
}

void DrainNetlinkWatch(int fd) {
  uint8_t bytes[8192];
  while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0 || errno == ENOBUFS) {
  }
}

}  // namespace uroce::nic
