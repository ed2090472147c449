// SPDX-License-Identifier: Apache-2.0
#include "nic/net/netlink_message.h"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>

#include "absl/strings/string_view.h"

namespace uroce::nic {
namespace {

constexpr size_t kIpv4Offset = 12;  // Of the address in a GID.
constexpr uint8_t kIpv4Bits = 96;
constexpr uint16_t kKnownStates =
    NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE;
constexpr uint16_t kUnsureStates = NUD_STALE | NUD_FAILED;

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

}  // namespace uroce::nic
