// SPDX-License-Identifier: Apache-2.0
#include "nic/net/netlink.h"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace uroce::nic {
namespace {

constexpr size_t kIpv4Offset = 12;  // Of the address in a GID.
constexpr uint8_t kIpv4Bits = 96;
constexpr uint16_t kKnownStates =
    NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE;
constexpr uint16_t kUnsureStates = NUD_STALE | NUD_FAILED;

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

Bytes AddressBytes(const Gid& gid) {
  return Bytes(gid.bytes).subspan(gid.is_ipv4() ? kIpv4Offset : 0);
}

void NetlinkRequest::Start(uint16_t type, uint16_t flags, const void* header, size_t length) {
  auto* message = reinterpret_cast<nlmsghdr*>(bytes_);
  message->nlmsg_type = type;
  message->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  std::memcpy(bytes_ + NLMSG_HDRLEN, header, length);
  length_ = NLMSG_ALIGN(NLMSG_LENGTH(length));
}

void NetlinkRequest::Add(uint16_t type, const void* value, size_t length) {
  auto* attribute = reinterpret_cast<rtattr*>(bytes_ + length_);
  attribute->rta_type = type;
  attribute->rta_len = static_cast<uint16_t>(RTA_LENGTH(length));
  if (length != 0) std::memcpy(RTA_DATA(attribute), value, length);
  length_ += RTA_ALIGN(attribute->rta_len);
}

void NetlinkRequest::Add(uint16_t type, const Gid& gid) {
  const Bytes address = AddressBytes(gid);
  Add(type, address.data(), address.size());
}

void NetlinkRequest::Open(uint16_t type) {
  open_ = length_;
  Add(type, nullptr, 0);
}

void NetlinkRequest::Close() {
  reinterpret_cast<rtattr*>(bytes_ + open_)->rta_len = static_cast<uint16_t>(length_ - open_);
}

Bytes NetlinkRequest::Finish(uint32_t sequence) {
  auto* message = reinterpret_cast<nlmsghdr*>(bytes_);
  message->nlmsg_len = static_cast<uint32_t>(length_);
  message->nlmsg_seq = sequence;
  return {bytes_, length_};
}

std::optional<Bytes> NetlinkAttributes::Find(uint16_t type) const {
  size_t at = 0;
  while (at + sizeof(rtattr) <= bytes_.size()) {
    rtattr attribute;
    std::memcpy(&attribute, bytes_.data() + at, sizeof(attribute));
    if (attribute.rta_len < sizeof(rtattr) || attribute.rta_len > bytes_.size() - at) break;
    if ((attribute.rta_type & NLA_TYPE_MASK) == type) {
      return bytes_.subspan(at + RTA_LENGTH(0), attribute.rta_len - RTA_LENGTH(0));
    }
    at += RTA_ALIGN(attribute.rta_len);
  }
  return std::nullopt;
}

std::string NetlinkAttributes::Text(uint16_t type) const {
  const Bytes value = Find(type).value_or(Bytes());
  return std::string(value.begin(), std::find(value.begin(), value.end(), 0));
}

std::optional<NetlinkMessage> TakeMessage(Bytes& datagram) {
  NetlinkMessage message;
  if (datagram.size() < sizeof(message.header)) return std::nullopt;
  std::memcpy(&message.header, datagram.data(), sizeof(message.header));
  const size_t length = message.header.nlmsg_len;
  if (length < NLMSG_HDRLEN || length > datagram.size()) return std::nullopt;
  message.body = datagram.subspan(NLMSG_HDRLEN, length - NLMSG_HDRLEN);
  datagram = datagram.subspan(std::min<size_t>(NLMSG_ALIGN(length), datagram.size()));
  return message;
}

std::optional<Gid> GidOf(Bytes address) {
  Gid gid;
  if (address.size() == gid.bytes.size()) {
    std::copy(address.begin(), address.end(), gid.bytes.begin());
    return gid;
  }
  if (address.size() != gid.bytes.size() - kIpv4Offset) return std::nullopt;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  std::copy(address.begin(), address.end(), gid.bytes.begin() + kIpv4Offset);
  return gid;
}

// If the lower interface is in another namespace, IFLA_LINK is its number there.
std::optional<VlanInterface> ReadVlan(const NetlinkMessage& message) {
  const auto link = message.Fixed<ifinfomsg>();
  if (message.header.nlmsg_type != RTM_NEWLINK || !link) return std::nullopt;
  const NetlinkAttributes attributes = message.Attributes<ifinfomsg>();
  const NetlinkAttributes info = attributes.Nested(IFLA_LINKINFO);
  if (info.Text(IFLA_INFO_KIND) != "vlan" || attributes.Find(IFLA_LINK_NETNSID)) {
    return std::nullopt;
  }
  const NetlinkAttributes vlan = info.Nested(IFLA_INFO_DATA);
  const auto lower = attributes.Read<int32_t>(IFLA_LINK);
  const auto id = vlan.Read<uint16_t>(IFLA_VLAN_ID);
  const auto protocol = vlan.Read<uint16_t>(IFLA_VLAN_PROTOCOL);
  if (!lower || !id || ntohs(protocol.value_or(htons(ETH_P_8021Q))) != ETH_P_8021Q) {
    return std::nullopt;
  }
  return VlanInterface{link->ifi_index, *lower, attributes.Text(IFLA_IFNAME), *id,
                       attributes.Read<Mac>(IFLA_ADDRESS).value_or(Mac{})};
}

std::optional<NeighbourNews> ReadNeighbour(const NetlinkMessage& message) {
  const auto neighbour = message.Fixed<ndmsg>();
  const NetlinkAttributes attributes = message.Attributes<ndmsg>();
  const std::optional<Bytes> address = attributes.Find(NDA_DST);
  if (!neighbour || !address) return std::nullopt;
  if (neighbour->ndm_family != AF_INET && neighbour->ndm_family != AF_INET6) return std::nullopt;
  const std::optional<Gid> gid = GidOf(*address);
  if (!gid) return std::nullopt;
  NeighbourNews news{.ifindex = neighbour->ndm_ifindex, .address = *gid};
  news.deleted = message.header.nlmsg_type == RTM_DELNEIGH;
  news.needs_probe = true;
  if (news.deleted) return news;
  if ((neighbour->ndm_state & kKnownStates) != 0) news.mac = attributes.Read<Mac>(NDA_LLADDR);
  news.needs_probe = (neighbour->ndm_state & kUnsureStates) != 0;
  return news;
}

// On a point-to-point link IFA_ADDRESS is the peer, and IFA_LOCAL ours.
std::optional<LinkAddress> ReadAddress(const NetlinkMessage& message) {
  const auto fixed = message.Fixed<ifaddrmsg>();
  if (message.header.nlmsg_type != RTM_NEWADDR || !fixed) return std::nullopt;
  const NetlinkAttributes attributes = message.Attributes<ifaddrmsg>();
  const uint32_t flags = attributes.Read<uint32_t>(IFA_FLAGS).value_or(fixed->ifa_flags);
  if ((flags & IFA_F_DADFAILED) != 0) return std::nullopt;
  std::optional<Bytes> address = attributes.Find(IFA_LOCAL);
  if (!address) address = attributes.Find(IFA_ADDRESS);
  const std::optional<Gid> gid = address ? GidOf(*address) : std::nullopt;
  if (!gid) return std::nullopt;
  const uint8_t base = gid->is_ipv4() ? kIpv4Bits : 0;
  if (fixed->ifa_prefixlen > 128 - base) return std::nullopt;
  return LinkAddress{static_cast<int>(fixed->ifa_index), *gid,
                     static_cast<uint8_t>(base + fixed->ifa_prefixlen)};
}

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
