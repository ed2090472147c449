// SPDX-License-Identifier: Apache-2.0
#include "nic/net/netlink.h"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace uroce::nic {
namespace {

constexpr uint16_t kDiscardPort = 9;
// The kernel sends a list in datagrams of up to this size.
constexpr size_t kListBytes = 32768;
constexpr int kDatagramsPerLook = 32;
constexpr int kListAttempts = 3;
constexpr size_t kGidBits = 128;

uint8_t FamilyOf(const Gid& gid) { return gid.is_ipv4() ? AF_INET : AF_INET6; }

ndmsg NeighbourHeader(int ifindex, const Gid& address) {
  ndmsg header{};
  header.ndm_family = FamilyOf(address);
  header.ndm_ifindex = ifindex;
  return header;
}

/// Sends an empty datagram to the neighbour's discard port, so that the kernel resolves it.
void SendToDiscard(int ifindex, const Gid& address) {
  const Fd probe(socket(FamilyOf(address), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  char interface[IF_NAMESIZE] = "";
  if_indextoname(static_cast<uint32_t>(ifindex), interface);
  setsockopt(probe.get(), SOL_SOCKET, SO_BINDTODEVICE, interface, sizeof(interface));
  sockaddr_storage to{};
  socklen_t length = sizeof(sockaddr_in);
  if (address.is_ipv4()) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(to);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(kDiscardPort);
    std::memcpy(&v4.sin_addr, AddressBytes(address).data(), 4);
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(to);
    length = sizeof(v6);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(kDiscardPort);
    v6.sin6_scope_id = static_cast<uint32_t>(ifindex);
    std::memcpy(&v6.sin6_addr, address.bytes.data(), 16);
  }
  sendto(probe.get(), nullptr, 0, MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&to), length);
}

void AddNews(const NetlinkMessage& message, NetlinkNews& news) {
  switch (message.header.nlmsg_type) {
    case RTM_NEWNEIGH:
    case RTM_DELNEIGH:
      if (const auto neighbour = ReadNeighbour(message)) news.neighbours.push_back(*neighbour);
      return;
    case RTM_NEWROUTE:
    case RTM_DELROUTE:
      news.routes = true;
      return;
    default:
      news.links = true;
  }
}

}  // namespace

/// The answer of the kernel, or its errno.
struct Netlink::Answer {
  alignas(8) uint8_t bytes[4096];
  NetlinkMessage message;
  int error = 0;
};

Netlink::Netlink() : socket_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {
  // The kernel answers at once; the timeout is a safeguard.
  const timeval patience{.tv_sec = 0, .tv_usec = 100'000};
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

bool Netlink::Ask(NetlinkRequest& request, Answer& answer) {
  const Bytes question = request.Finish(++sequence_);
  if (send(socket_.get(), question.data(), question.size(), 0) < 0) {
    answer.error = errno;
    return false;
  }
  do {  // Skips late answers to earlier requests.
    const ssize_t got = recv(socket_.get(), answer.bytes, sizeof(answer.bytes), 0);
    Bytes datagram(answer.bytes, got < 0 ? 0 : static_cast<size_t>(got));
    const std::optional<NetlinkMessage> message = TakeMessage(datagram);
    if (!message) {
      answer.error = got < 0 ? errno : EIO;
      return false;
    }
    answer.message = *message;
  } while (answer.message.header.nlmsg_seq != sequence_);
  if (answer.message.header.nlmsg_type != NLMSG_ERROR) return true;
  const auto error = answer.message.Fixed<nlmsgerr>();
  answer.error = error ? -error->error : EIO;
  return answer.error == 0;
}

bool Netlink::List(NetlinkRequest& request, absl::FunctionRef<void(const NetlinkMessage&)> take) {
  const Bytes question = request.Finish(++sequence_);
  if (send(socket_.get(), question.data(), question.size(), 0) < 0) return false;
  std::vector<uint8_t> buffer(kListBytes);
  bool is_consistent = true;
  for (;;) {
    const ssize_t got = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) return false;
    Bytes datagram(buffer.data(), static_cast<size_t>(got));
    while (const std::optional<NetlinkMessage> message = TakeMessage(datagram)) {
      if (message->header.nlmsg_seq != sequence_) continue;
      if ((message->header.nlmsg_flags & NLM_F_DUMP_INTR) != 0) is_consistent = false;
      if (message->header.nlmsg_type == NLMSG_DONE) return is_consistent;
      if (message->header.nlmsg_type == NLMSG_ERROR) return false;
      take(*message);
    }
  }
}

template <typename Item>
std::optional<std::vector<Item>> Netlink::ListOf(
    NetlinkRequest& request, std::optional<Item> (*read)(const NetlinkMessage&)) {
  for (int attempt = 0; attempt < kListAttempts; ++attempt) {
    std::vector<Item> items;
    const bool is_whole = List(request, [&](const NetlinkMessage& message) {
      if (std::optional<Item> item = read(message)) items.push_back(*std::move(item));
    });
    if (is_whole) return items;
  }
  return std::nullopt;
}

absl::Status Netlink::AskForRoute(const Gid& destination, int ifindex, Answer& answer) {
  rtmsg header{};
  header.rtm_family = FamilyOf(destination);
  header.rtm_dst_len = static_cast<uint8_t>(8 * AddressBytes(destination).size());
  NetlinkRequest request(RTM_GETROUTE, 0, header);
  request.Add(RTA_DST, destination);
  if (ifindex != 0) request.Add(RTA_OIF, &ifindex, sizeof(ifindex));
  if (Ask(request, answer)) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("no route to ", FormatAddress(destination), ": ", std::strerror(answer.error)));
}

absl::StatusOr<Gid> Netlink::NextHop(int ifindex, const Gid& destination) {
  Answer answer;
  if (absl::Status status = AskForRoute(destination, ifindex, answer); !status.ok()) return status;
  const auto route = answer.message.Fixed<rtmsg>();
  if (!route || route->rtm_type != RTN_UNICAST) {
    return absl::UnavailableError(
        absl::StrCat("the route to ", FormatAddress(destination), " is not one to a neighbour"));
  }
  const NetlinkAttributes attributes = answer.message.Attributes<rtmsg>();
  std::optional<Bytes> gateway = attributes.Find(RTA_GATEWAY);
  if (!gateway) gateway = attributes.Find(RTA_VIA);
  if (!gateway) return destination;
  // RTA_VIA begins with the family of the address: IPv4 may go by an IPv6 router (RFC 5549).
  const size_t begin = gateway->size() % 4 == 0 ? 0 : sizeof(uint16_t);
  return GidOf(gateway->subspan(begin)).value_or(destination);
}

absl::StatusOr<KernelRoute> Netlink::RouteTo(const Gid& destination, int ifindex) {
  Answer answer;
  if (absl::Status status = AskForRoute(destination, ifindex, answer); !status.ok()) return status;
  const auto route = answer.message.Fixed<rtmsg>();
  const NetlinkAttributes attributes = answer.message.Attributes<rtmsg>();
  const std::optional<int> out = attributes.Read<int>(RTA_OIF);
  const std::optional<Gid> source = GidOf(attributes.Find(RTA_PREFSRC).value_or(Bytes()));
  if (!route || !out) {
    return absl::UnavailableError(
        absl::StrCat("the route to ", FormatAddress(destination), " leads nowhere"));
  }
  return KernelRoute{*out, source.value_or(Gid{}), route->rtm_type == RTN_LOCAL};
}

std::optional<Mac> Netlink::Neighbour(int ifindex, const Gid& address) {
  NetlinkRequest request(RTM_GETNEIGH, 0, NeighbourHeader(ifindex, address));
  request.Add(NDA_DST, address);
  Answer answer;
  if (!Ask(request, answer)) return std::nullopt;
  const std::optional<NeighbourNews> news = ReadNeighbour(answer.message);
  return news ? news->mac : std::nullopt;
}

void Netlink::Probe(int ifindex, const Gid& address) {
  ndmsg header = NeighbourHeader(ifindex, address);
  header.ndm_state = NUD_NONE;
  header.ndm_flags = NTF_USE;
  NetlinkRequest request(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK, header);
  request.Add(NDA_DST, address);
  Answer answer;
  if (!Ask(request, answer)) SendToDiscard(ifindex, address);
}

// A kernel that supports the filter leaves out other kinds; otherwise ReadVlan does.
std::optional<std::vector<VlanInterface>> Netlink::VlansAbove(int ifindex) {
  NetlinkRequest request(RTM_GETLINK, NLM_F_DUMP, ifinfomsg{});
  const uint32_t without_statistics = RTEXT_FILTER_SKIP_STATS;
  request.Add(IFLA_EXT_MASK, &without_statistics, sizeof(without_statistics));
  request.Open(IFLA_LINKINFO);
  request.Add(IFLA_INFO_KIND, "vlan", sizeof("vlan"));
  request.Close();
  std::optional<std::vector<VlanInterface>> vlans = ListOf(request, ReadVlan);
  if (vlans) {
    std::erase_if(*vlans, [&](const auto& vlan) { return vlan.lower_ifindex != ifindex; });
  }
  return vlans;
}

std::optional<std::vector<LinkAddress>> Netlink::Addresses() {
  NetlinkRequest request(RTM_GETADDR, NLM_F_DUMP, ifaddrmsg{});
  return ListOf(request, ReadAddress);
}

absl::Status Netlink::AddAddress(int ifindex, const InterfaceAddress& address) {
  const size_t bits = 8 * AddressBytes(address.gid).size();
  ifaddrmsg header{};
  header.ifa_family = FamilyOf(address.gid);
  header.ifa_prefixlen = static_cast<uint8_t>(address.prefix_bits - (kGidBits - bits));
  header.ifa_index = static_cast<uint32_t>(ifindex);
  NetlinkRequest request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, header);
  const uint32_t flags = IFA_F_NODAD | IFA_F_NOPREFIXROUTE;
  request.Add(IFA_LOCAL, address.gid);
  request.Add(IFA_ADDRESS, address.gid);
  request.Add(IFA_FLAGS, &flags, sizeof(flags));
  Answer answer;
  if (Ask(request, answer)) return absl::OkStatus();
  const std::string text =
      absl::StrCat(FormatInterfaceAddress(address), ": ", std::strerror(answer.error));
  return answer.error == EPERM ? absl::PermissionDeniedError(text) : absl::InternalError(text);
}

Fd OpenNetlinkWatch() {
  Fd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl groups{};
  groups.nl_family = AF_NETLINK;
  groups.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_NEIGH |
                     RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
  if (!fd || bind(fd.get(), reinterpret_cast<sockaddr*>(&groups), sizeof(groups)) != 0) return Fd();
  return fd;
}

// ENOBUFS: news were lost because the socket's buffer was full.
NetlinkNews ReadNetlinkWatch(int fd) {
  NetlinkNews news;
  std::vector<uint8_t> buffer(kListBytes);
  for (int i = 0; i < kDatagramsPerLook; ++i) {
    const ssize_t got = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == ENOBUFS) news.links = news.routes = true;
    if (got <= 0 && errno != ENOBUFS) break;
    Bytes datagram(buffer.data(), got < 0 ? 0 : static_cast<size_t>(got));
    while (const std::optional<NetlinkMessage> message = TakeMessage(datagram)) {
      AddNews(*message, news);
    }
  }
  return news;
}

}  // namespace uroce::nic
