// SPDX-License-Identifier: Apache-2.0
#include "nic/net/netlink.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
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
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/net/address.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr uint16_t kDiscardPort = 9;
// The kernel sends a list in datagrams of up to this size.
constexpr size_t kListBytes = 32768;
constexpr int kDatagramsPerLook = 32;
constexpr int kListAttempts = 3;

constexpr size_t kGidBits = 128;
constexpr size_t kIpv4Offset = 12;  // Of the address in a GID.
constexpr uint16_t kKnownStates =
    NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE;
constexpr uint16_t kUnsureStates = NUD_STALE | NUD_FAILED;

uint8_t FamilyOf(const Gid& gid) { return gid.is_ipv4() ? AF_INET : AF_INET6; }

/// The bytes of the address alone, as the kernel expects it.
Bytes AddressBytes(const Gid& gid) {
  return Bytes(gid.bytes).subspan(gid.is_ipv4() ? kIpv4Offset : 0);
}

/// The GID of an address of 4 or 16 bytes.
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

/// The fixed part of a message as a T; null when the message is shorter.
template <typename T>
const T* FixedPart(const nlmsghdr& message) {
  if (mnl_nlmsg_get_payload_len(&message) < sizeof(T)) return nullptr;
  return static_cast<const T*>(mnl_nlmsg_get_payload(&message));
}

/// The attributes of a message or of a nest, by type: the first of each.
class Attributes {
 public:
  /// Of a message behind its fixed part, which has `fixed_bytes`.
  Attributes(const nlmsghdr& message, size_t fixed_bytes) {
    const size_t begin = MNL_ALIGN(fixed_bytes);
    const size_t length = mnl_nlmsg_get_payload_len(&message);
    if (length > begin) {
      Parse(mnl_nlmsg_get_payload_offset(&message, fixed_bytes), length - begin);
    }
  }
  /// The attributes nested in the one of `type`; empty when it does not exist.
  Attributes Nested(uint16_t type) const { return Attributes(found_[type]); }

  bool Has(uint16_t type) const { return found_[type] != nullptr; }
  std::optional<Bytes> Find(uint16_t type) const {
    if (!Has(type)) return std::nullopt;
    return Bytes(static_cast<const uint8_t*>(mnl_attr_get_payload(found_[type])),
                 mnl_attr_get_payload_len(found_[type]));
  }
  /// The value as a T; nothing unless it has that size.
  template <typename T>
  std::optional<T> Read(uint16_t type) const {
    const std::optional<Bytes> value = Find(type);
    if (!value || value->size() != sizeof(T)) return std::nullopt;
    T result;
    std::memcpy(&result, value->data(), sizeof(T));
    return result;
  }
  /// The value as a text that ends at its first zero byte.
  std::string Text(uint16_t type) const {
    const Bytes value = Find(type).value_or(Bytes());
    return std::string(value.begin(), std::find(value.begin(), value.end(), 0));
  }

 private:
  static constexpr size_t kTypes = 64;  ///< No higher type is asked for.

  explicit Attributes(const nlattr* nest) {
    if (nest != nullptr) Parse(mnl_attr_get_payload(nest), mnl_attr_get_payload_len(nest));
  }
  // mnl_attr_parse would take the padding behind a message for a part of it.
  void Parse(const void* payload, size_t length) {
    const auto take = [](const nlattr* attribute, void* self) {
      const uint16_t type = mnl_attr_get_type(attribute);
      auto& found = static_cast<Attributes*>(self)->found_;
      if (type < kTypes && found[type] == nullptr) found[type] = attribute;
      return MNL_CB_OK;
    };
    mnl_attr_parse_payload(payload, length, take, this);
  }

  std::array<const nlattr*, kTypes> found_{};
};

/// Calls `take` for each complete message of a datagram, until it returns false.
template <typename Take>
void ForEachMessage(Bytes datagram, Take take) {
  auto* message = reinterpret_cast<const nlmsghdr*>(datagram.data());
  int left = static_cast<int>(datagram.size());
  while (mnl_nlmsg_ok(message, left)) {
    if (!take(*message)) return;
    message = mnl_nlmsg_next(message, &left);
  }
}

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

}  // namespace

// ---- messages ----

// If the lower interface is in another namespace, IFLA_LINK is its number there.
std::optional<VlanInterface> ReadVlan(const nlmsghdr& message) {
  const auto* const link = FixedPart<ifinfomsg>(message);
  if (message.nlmsg_type != RTM_NEWLINK || link == nullptr) return std::nullopt;
  const Attributes attributes(message, sizeof(*link));
  const Attributes info = attributes.Nested(IFLA_LINKINFO);
  if (info.Text(IFLA_INFO_KIND) != "vlan" || attributes.Has(IFLA_LINK_NETNSID)) {
    return std::nullopt;
  }
  const Attributes vlan = info.Nested(IFLA_INFO_DATA);
  const auto lower = attributes.Read<int32_t>(IFLA_LINK);
  const auto id = vlan.Read<uint16_t>(IFLA_VLAN_ID);
  const auto protocol = vlan.Read<uint16_t>(IFLA_VLAN_PROTOCOL);
  if (!lower || !id || ntohs(protocol.value_or(htons(ETH_P_8021Q))) != ETH_P_8021Q) {
    return std::nullopt;
  }
  return VlanInterface{link->ifi_index, *lower, attributes.Text(IFLA_IFNAME), *id,
                       attributes.Read<Mac>(IFLA_ADDRESS).value_or(Mac{})};
}

// On a point-to-point link IFA_ADDRESS is the peer, and IFA_LOCAL ours.
std::optional<LinkAddress> ReadAddress(const nlmsghdr& message) {
  const auto* const fixed = FixedPart<ifaddrmsg>(message);
  if (message.nlmsg_type != RTM_NEWADDR || fixed == nullptr) return std::nullopt;
  const Attributes attributes(message, sizeof(*fixed));
  const uint32_t flags = attributes.Read<uint32_t>(IFA_FLAGS).value_or(fixed->ifa_flags);
  if ((flags & IFA_F_DADFAILED) != 0) return std::nullopt;
  std::optional<Bytes> address = attributes.Find(IFA_LOCAL);
  if (!address) address = attributes.Find(IFA_ADDRESS);
  const std::optional<Gid> gid = address ? GidOf(*address) : std::nullopt;
  if (!gid) return std::nullopt;
  const uint8_t base = gid->is_ipv4() ? kIpv4Bits : 0;
  if (fixed->ifa_prefixlen > kGidBits - base) return std::nullopt;
  return LinkAddress{static_cast<int>(fixed->ifa_index), *gid,
                     static_cast<uint8_t>(base + fixed->ifa_prefixlen)};
}

std::optional<NeighbourNews> ReadNeighbour(const nlmsghdr& message) {
  const auto* const neighbour = FixedPart<ndmsg>(message);
  if (neighbour == nullptr) return std::nullopt;
  if (neighbour->ndm_family != AF_INET && neighbour->ndm_family != AF_INET6) return std::nullopt;
  const Attributes attributes(message, sizeof(*neighbour));
  const std::optional<Bytes> address = attributes.Find(NDA_DST);
  const std::optional<Gid> gid = address ? GidOf(*address) : std::nullopt;
  if (!gid) return std::nullopt;
  NeighbourNews news{.ifindex = neighbour->ndm_ifindex, .address = *gid};
  news.deleted = message.nlmsg_type == RTM_DELNEIGH;
  news.needs_probe = true;
  if (news.deleted) return news;
  if ((neighbour->ndm_state & kKnownStates) != 0) news.mac = attributes.Read<Mac>(NDA_LLADDR);
  news.needs_probe = (neighbour->ndm_state & kUnsureStates) != 0;
  return news;
}

void AddNews(std::span<const uint8_t> datagram, NetlinkNews& news) {
  ForEachMessage(datagram, [&](const nlmsghdr& message) {
    switch (message.nlmsg_type) {
      case RTM_NEWNEIGH:
      case RTM_DELNEIGH:
        if (const auto neighbour = ReadNeighbour(message)) news.neighbours.push_back(*neighbour);
        break;
      case RTM_NEWROUTE:
      case RTM_DELROUTE:
        news.routes = true;
        break;
      default:
        news.links = true;
    }
    return true;
  });
}

// ---- requests ----

void MnlSocketCloser::operator()(mnl_socket* socket) const { mnl_socket_close(socket); }

/// One request under construction. All requests of the daemon fit into it.
class Netlink::Request {
 public:
  /// `fixed` is the fixed part behind the netlink header, such as an rtmsg.
  template <typename Fixed>
  Request(uint16_t type, uint16_t flags, const Fixed& fixed)
      : message_(mnl_nlmsg_put_header(bytes_)) {
    message_->nlmsg_type = type;
    message_->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
    std::memcpy(mnl_nlmsg_put_extra_header(message_, sizeof(fixed)), &fixed, sizeof(fixed));
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  void Add(uint16_t type, uint32_t value) { mnl_attr_put_u32(message_, type, value); }
  /// Adds the address alone: 4 bytes or 16.
  void Add(uint16_t type, const Gid& gid) {
    const Bytes address = AddressBytes(gid);
    mnl_attr_put(message_, type, address.size(), address.data());
  }
  nlmsghdr& message() { return *message_; }

 private:
  static constexpr size_t kMaxBytes = 256;

  alignas(8) uint8_t bytes_[kMaxBytes];
  nlmsghdr* message_;
};

/// The answer of the kernel, or its errno.
struct Netlink::Answer {
  alignas(8) uint8_t bytes[4096];
  int error = 0;

  const nlmsghdr& message() const { return *reinterpret_cast<const nlmsghdr*>(bytes); }
};

Netlink::Netlink() : socket_(mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC)) {
  if (!socket_) return;
  // The kernel answers at once; the timeout is a safeguard.
  const timeval patience{.tv_sec = 0, .tv_usec = 100'000};
  setsockopt(mnl_socket_get_fd(socket_.get()), SOL_SOCKET, SO_RCVTIMEO, &patience,
             sizeof(patience));
}

bool Netlink::Send(Request& request) {
  if (!socket_) {
    errno = EBADF;
    return false;
  }
  nlmsghdr& message = request.message();
  message.nlmsg_seq = ++sequence_;
  return mnl_socket_sendto(socket_.get(), &message, message.nlmsg_len) >= 0;
}

bool Netlink::Ask(Request& request, Answer& answer) {
  if (!Send(request)) {
    answer.error = errno;
    return false;
  }
  do {  // Skips late answers to earlier requests.
    const ssize_t got = mnl_socket_recvfrom(socket_.get(), answer.bytes, sizeof(answer.bytes));
    if (got < 0 || !mnl_nlmsg_ok(&answer.message(), static_cast<int>(got))) {
      answer.error = got < 0 ? errno : EIO;
      return false;
    }
  } while (answer.message().nlmsg_seq != sequence_);
  if (answer.message().nlmsg_type != NLMSG_ERROR) return true;
  const auto* const error = FixedPart<nlmsgerr>(answer.message());
  answer.error = error != nullptr ? -error->error : EIO;
  return answer.error == 0;
}

template <typename Item>
std::optional<std::vector<Item>> Netlink::List(Request& request,
                                               std::optional<Item> (*read)(const nlmsghdr&)) {
  if (!Send(request)) return std::nullopt;
  enum class End : uint8_t { kNotYet, kDone, kError } end = End::kNotYet;
  std::vector<uint8_t> buffer(kListBytes);
  std::vector<Item> items;
  bool is_consistent = true;
  while (end == End::kNotYet) {
    const ssize_t got = mnl_socket_recvfrom(socket_.get(), buffer.data(), buffer.size());
    if (got <= 0) return std::nullopt;
    ForEachMessage(Bytes(buffer.data(), static_cast<size_t>(got)), [&](const nlmsghdr& message) {
      if (message.nlmsg_seq != sequence_) return true;
      if ((message.nlmsg_flags & NLM_F_DUMP_INTR) != 0) is_consistent = false;
      if (message.nlmsg_type == NLMSG_DONE) end = End::kDone;
      if (message.nlmsg_type == NLMSG_ERROR) end = End::kError;
      if (end != End::kNotYet) return false;
      if (std::optional<Item> item = read(message)) items.push_back(*std::move(item));
      return true;
    });
  }
  if (end == End::kError || !is_consistent) return std::nullopt;
  return items;
}

template <typename Item>
std::optional<std::vector<Item>> Netlink::ListOf(Request& request,
                                                 std::optional<Item> (*read)(const nlmsghdr&)) {
  for (int attempt = 0; attempt < kListAttempts; ++attempt) {
    if (std::optional<std::vector<Item>> items = List(request, read)) return items;
  }
  return std::nullopt;
}

absl::Status Netlink::AskForRoute(const Gid& destination, int ifindex, Answer& answer) {
  rtmsg header{};
  header.rtm_family = FamilyOf(destination);
  header.rtm_dst_len = static_cast<uint8_t>(8 * AddressBytes(destination).size());
  Request request(RTM_GETROUTE, 0, header);
  request.Add(RTA_DST, destination);
  if (ifindex != 0) request.Add(RTA_OIF, static_cast<uint32_t>(ifindex));
  if (Ask(request, answer)) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("no route to ", FormatAddress(destination), ": ", std::strerror(answer.error)));
}

absl::StatusOr<Gid> Netlink::NextHop(int ifindex, const Gid& destination) {
  Answer answer;
  if (absl::Status status = AskForRoute(destination, ifindex, answer); !status.ok()) return status;
  const auto* const route = FixedPart<rtmsg>(answer.message());
  if (route == nullptr || route->rtm_type != RTN_UNICAST) {
    return absl::UnavailableError(
        absl::StrCat("the route to ", FormatAddress(destination), " is not one to a neighbour"));
  }
  const Attributes attributes(answer.message(), sizeof(*route));
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
  const auto* const route = FixedPart<rtmsg>(answer.message());
  const Attributes attributes(answer.message(), sizeof(rtmsg));
  const std::optional<int> out = attributes.Read<int>(RTA_OIF);
  const std::optional<Gid> source = GidOf(attributes.Find(RTA_PREFSRC).value_or(Bytes()));
  if (route == nullptr || !out) {
    return absl::UnavailableError(
        absl::StrCat("the route to ", FormatAddress(destination), " leads nowhere"));
  }
  return KernelRoute{*out, source.value_or(Gid{}), route->rtm_type == RTN_LOCAL};
}

std::optional<Mac> Netlink::Neighbour(int ifindex, const Gid& address) {
  Request request(RTM_GETNEIGH, 0, NeighbourHeader(ifindex, address));
  request.Add(NDA_DST, address);
  Answer answer;
  if (!Ask(request, answer)) return std::nullopt;
  const std::optional<NeighbourNews> news = ReadNeighbour(answer.message());
  return news ? news->mac : std::nullopt;
}

void Netlink::Probe(int ifindex, const Gid& address) {
  ndmsg header = NeighbourHeader(ifindex, address);
  header.ndm_state = NUD_NONE;
  header.ndm_flags = NTF_USE;
  Request request(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK, header);
  request.Add(NDA_DST, address);
  Answer answer;
  if (!Ask(request, answer)) SendToDiscard(ifindex, address);
}

// A kernel that supports the filter leaves out other kinds; otherwise ReadVlan does.
std::optional<std::vector<VlanInterface>> Netlink::VlansAbove(int ifindex) {
  Request request(RTM_GETLINK, NLM_F_DUMP, ifinfomsg{});
  request.Add(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
  nlattr* const info = mnl_attr_nest_start(&request.message(), IFLA_LINKINFO);
  mnl_attr_put_strz(&request.message(), IFLA_INFO_KIND, "vlan");
  mnl_attr_nest_end(&request.message(), info);
  std::optional<std::vector<VlanInterface>> vlans = ListOf(request, ReadVlan);
  if (vlans) {
    std::erase_if(*vlans, [&](const auto& vlan) { return vlan.lower_ifindex != ifindex; });
  }
  return vlans;
}

std::optional<std::vector<LinkAddress>> Netlink::Addresses() {
  Request request(RTM_GETADDR, NLM_F_DUMP, ifaddrmsg{});
  return ListOf(request, ReadAddress);
}

absl::Status Netlink::AddAddress(int ifindex, const InterfaceAddress& address) {
  const size_t bits = 8 * AddressBytes(address.gid).size();
  ifaddrmsg header{};
  header.ifa_family = FamilyOf(address.gid);
  header.ifa_prefixlen = static_cast<uint8_t>(address.prefix_bits - (kGidBits - bits));
  header.ifa_index = static_cast<uint32_t>(ifindex);
  Request request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, header);
  request.Add(IFA_LOCAL, address.gid);
  request.Add(IFA_ADDRESS, address.gid);
  request.Add(IFA_FLAGS, IFA_F_NODAD | IFA_F_NOPREFIXROUTE);
  Answer answer;
  if (Ask(request, answer)) return absl::OkStatus();
  const std::string text =
      absl::StrCat(FormatInterfaceAddress(address), ": ", std::strerror(answer.error));
  return answer.error == EPERM ? absl::PermissionDeniedError(text) : absl::InternalError(text);
}

// ---- news ----

NetlinkWatch::NetlinkWatch()
    : socket_(mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK)) {
  constexpr unsigned kGroups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
                               RTMGRP_NEIGH | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
  if (socket_ && mnl_socket_bind(socket_.get(), kGroups, MNL_SOCKET_AUTOPID) != 0) socket_.reset();
}

int NetlinkWatch::fd() const { return socket_ ? mnl_socket_get_fd(socket_.get()) : -1; }

// ENOBUFS: news were lost because the socket's buffer was full; ENOSPC: because ours was.
NetlinkNews NetlinkWatch::Read() {
  NetlinkNews news;
  std::vector<uint8_t> buffer(kListBytes);
  for (int i = 0; i < kDatagramsPerLook; ++i) {
    const ssize_t got = mnl_socket_recvfrom(socket_.get(), buffer.data(), buffer.size());
    if (got < 0 && (errno == ENOBUFS || errno == ENOSPC)) {
      news.links = news.routes = true;
      continue;
    }
    if (got <= 0) break;
    AddNews(Bytes(buffer.data(), static_cast<size_t>(got)), news);
  }
  return news;
}

}  // namespace uroce::nic
