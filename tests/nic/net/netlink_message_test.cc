// SPDX-License-Identifier: Apache-2.0
// Messages of rtnetlink, also cut and wrong ones: nothing is read beyond the bytes that are there.
#include "nic/net/netlink.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_addr.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include "nic/net/address.h"

namespace uroce::nic {
namespace {

constexpr Mac kMac{0x52, 0x54, 0, 0, 0, 1};

/// A message as the kernel would send it, made by the code that makes questions.
std::vector<uint8_t> Datagram(NetlinkRequest& message) {
  const Bytes bytes = message.Finish(1);
  return {bytes.begin(), bytes.end()};
}

NetlinkMessage Only(const std::vector<uint8_t>& datagram) {
  Bytes bytes(datagram);
  const std::optional<NetlinkMessage> message = TakeMessage(bytes);
  EXPECT_TRUE(message.has_value());
  EXPECT_TRUE(bytes.empty());
  return message.value_or(NetlinkMessage());
}

struct VlanOptions {
  const char* kind = "vlan";
  uint16_t protocol = ETH_P_8021Q;
  bool elsewhere = false;
};

std::vector<uint8_t> VlanLink(const VlanOptions& options) {
  ifinfomsg header{};
  header.ifi_index = 7;
  NetlinkRequest message(RTM_NEWLINK, 0, header);
  const int32_t lower = 3;
  const uint16_t id = 100;
  const uint16_t protocol = htons(options.protocol);
  message.Add(IFLA_IFNAME, "eth0.100", sizeof("eth0.100"));
  message.Add(IFLA_ADDRESS, kMac.data(), kMac.size());
  message.Add(IFLA_LINK, &lower, sizeof(lower));
  if (options.elsewhere) message.Add(IFLA_LINK_NETNSID, &lower, sizeof(lower));
  message.Open(IFLA_LINKINFO);
  message.Add(IFLA_INFO_KIND, options.kind, strlen(options.kind) + 1);
  NetlinkRequest data(RTM_NEWLINK, 0, ifinfomsg{});
  data.Add(IFLA_VLAN_ID, &id, sizeof(id));
  data.Add(IFLA_VLAN_PROTOCOL, &protocol, sizeof(protocol));
  const Bytes inner = data.Finish(0).subspan(NLMSG_LENGTH(sizeof(ifinfomsg)));
  message.Add(IFLA_INFO_DATA, inner.data(), inner.size());
  message.Close();
  return Datagram(message);
}

TEST(NetlinkMessageTest, VlanIsReadWithWhatIsBelowIt) {
  const std::vector<uint8_t> datagram = VlanLink({});
  EXPECT_EQ(ReadVlan(Only(datagram)), (VlanInterface{7, 3, "eth0.100", 100, kMac}));
}

TEST(NetlinkMessageTest, OtherLinksAreNoVlansOfOurs) {
  EXPECT_FALSE(ReadVlan(Only(VlanLink({.kind = "macvlan"}))));
  EXPECT_FALSE(ReadVlan(Only(VlanLink({.protocol = ETH_P_8021AD}))));
  EXPECT_FALSE(ReadVlan(Only(VlanLink({.elsewhere = true}))))
      << "above a link of another namespace";
}

std::vector<uint8_t> Neighbour(uint16_t type, int state, bool with_mac = true) {
  ndmsg header{};
  header.ndm_family = AF_INET;
  header.ndm_ifindex = 3;
  header.ndm_state = static_cast<uint16_t>(state);
  NetlinkRequest message(type, 0, header);
  message.Add(NDA_DST, Ipv4Gid(0x0a000002));
  if (with_mac) message.Add(NDA_LLADDR, kMac.data(), kMac.size());
  return Datagram(message);
}

TEST(NetlinkMessageTest, NeighbourIsKnownWhileTheKernelWouldSendToIt) {
  for (const int state : {NUD_REACHABLE, NUD_STALE, NUD_DELAY, NUD_PROBE, NUD_PERMANENT}) {
    const auto news = ReadNeighbour(Only(Neighbour(RTM_NEWNEIGH, state)));
    ASSERT_TRUE(news);
    EXPECT_EQ(news->ifindex, 3);
    EXPECT_EQ(news->address, Ipv4Gid(0x0a000002));
    EXPECT_EQ(news->mac, kMac);
    EXPECT_EQ(news->needs_probe, state == NUD_STALE);
  }
  for (const int state : {NUD_INCOMPLETE, NUD_FAILED}) {
    EXPECT_FALSE(ReadNeighbour(Only(Neighbour(RTM_NEWNEIGH, state)))->mac);
  }
  EXPECT_FALSE(ReadNeighbour(Only(Neighbour(RTM_NEWNEIGH, NUD_REACHABLE, false)))->mac);
}

TEST(NetlinkMessageTest, NeighbourThatFailedOrWentNeedsAProbe) {
  EXPECT_TRUE(ReadNeighbour(Only(Neighbour(RTM_NEWNEIGH, NUD_FAILED)))->needs_probe);
  EXPECT_FALSE(ReadNeighbour(Only(Neighbour(RTM_NEWNEIGH, NUD_INCOMPLETE)))->needs_probe);
  const auto gone = ReadNeighbour(Only(Neighbour(RTM_DELNEIGH, NUD_REACHABLE)));
  EXPECT_TRUE(gone->deleted);
  EXPECT_TRUE(gone->needs_probe);
  EXPECT_FALSE(gone->mac);
}

std::vector<uint8_t> AddressMessage(const Gid& gid, uint8_t prefix, uint32_t flags) {
  ifaddrmsg header{};
  header.ifa_family = gid.is_ipv4() ? AF_INET : AF_INET6;
  header.ifa_prefixlen = prefix;
  header.ifa_index = 3;
  NetlinkRequest message(RTM_NEWADDR, 0, header);
  message.Add(IFA_ADDRESS, gid);
  message.Add(IFA_FLAGS, &flags, sizeof(flags));
  return Datagram(message);
}

TEST(NetlinkMessageTest, AddressCountsItsPrefixInTheGid) {
  const auto v4 = ReadAddress(Only(AddressMessage(Ipv4Gid(0x0a000001), 24, 0)));
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->ifindex, 3);
  EXPECT_EQ(v4->address, Ipv4Gid(0x0a000001));
  EXPECT_EQ(v4->prefix_bits, 120);
  const Gid v6 = ParseInterfaceAddress("2001:db8::1")->gid;
  EXPECT_EQ(ReadAddress(Only(AddressMessage(v6, 64, 0)))->prefix_bits, 64);
}

TEST(NetlinkMessageTest, AddressThatSomebodyElseHasIsNotOurs) {
  const Gid v6 = ParseInterfaceAddress("2001:db8::1")->gid;
  EXPECT_FALSE(ReadAddress(Only(AddressMessage(v6, 64, IFA_F_DADFAILED))));
  EXPECT_TRUE(ReadAddress(Only(AddressMessage(v6, 64, IFA_F_TENTATIVE))));
}

TEST(NetlinkMessageTest, ImpossiblePrefixIsRefused) {
  EXPECT_FALSE(ReadAddress(Only(AddressMessage(Ipv4Gid(0x0a000001), 33, 0))));
}

TEST(NetlinkMessageTest, DatagramHoldsSeveralMessages) {
  std::vector<uint8_t> datagram = VlanLink({});
  const std::vector<uint8_t> second = Neighbour(RTM_NEWNEIGH, NUD_REACHABLE);
  datagram.insert(datagram.end(), second.begin(), second.end());
  Bytes rest(datagram);
  EXPECT_EQ(TakeMessage(rest)->header.nlmsg_type, RTM_NEWLINK);
  EXPECT_EQ(TakeMessage(rest)->header.nlmsg_type, RTM_NEWNEIGH);
  EXPECT_FALSE(TakeMessage(rest));
}

// Every shorter datagram, in a buffer of just that size: the sanitizers watch.
TEST(NetlinkMessageTest, CutMessagesAreReadAsFarAsTheyGo) {
  for (const std::vector<uint8_t>& whole : {VlanLink({}), Neighbour(RTM_NEWNEIGH, NUD_REACHABLE),
                                            AddressMessage(Ipv4Gid(0x0a000001), 24, 0)}) {
    for (size_t length = 0; length < whole.size(); ++length) {
      std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
      Bytes datagram(cut);
      EXPECT_FALSE(TakeMessage(datagram)) << "it says that it is longer";
      if (length < NLMSG_HDRLEN) continue;
      reinterpret_cast<nlmsghdr*>(cut.data())->nlmsg_len = static_cast<uint32_t>(length);
      datagram = Bytes(cut);
      const std::optional<NetlinkMessage> message = TakeMessage(datagram);
      ASSERT_TRUE(message);
      ReadVlan(*message);
      ReadNeighbour(*message);
      ReadAddress(*message);
    }
  }
}

TEST(NetlinkMessageTest, AttributeOfNoLengthEndsTheSearch) {
  std::vector<uint8_t> datagram = Neighbour(RTM_NEWNEIGH, NUD_REACHABLE);
  datagram[NLMSG_HDRLEN + sizeof(ndmsg)] = 0;  // The first attribute's length.
  EXPECT_FALSE(ReadNeighbour(Only(datagram)));
}

}  // namespace
}  // namespace uroce::nic
