// SPDX-License-Identifier: Apache-2.0
// Messages of rtnetlink, also cut and wrong ones: nothing is read beyond the bytes that are there.
#include "nic/net/netlink.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include "nic/net/address.h"

namespace uroce::nic {
namespace {

constexpr Mac kMac{0x52, 0x54, 0, 0, 0, 1};

using Datagram = std::vector<uint8_t>;

/// Builds a message as the kernel would send it.
class Builder {
 public:
  template <typename Fixed>
  Builder(uint16_t type, const Fixed& fixed) {
    message_->nlmsg_type = type;
    std::memcpy(mnl_nlmsg_put_extra_header(message_, sizeof(fixed)), &fixed, sizeof(fixed));
  }
  void Add(uint16_t type, const void* value, size_t length) {
    mnl_attr_put(message_, type, length, value);
  }
  void Add(uint16_t type, const Gid& gid) {
    const size_t begin = gid.is_ipv4() ? 12 : 0;
    Add(type, gid.bytes.data() + begin, gid.bytes.size() - begin);
  }
  nlmsghdr* message() { return message_; }
  Datagram Finish() const { return {bytes_, bytes_ + message_->nlmsg_len}; }

 private:
  alignas(8) uint8_t bytes_[256] = {};
  nlmsghdr* const message_ = mnl_nlmsg_put_header(bytes_);
};

/// The only message of a datagram.
const nlmsghdr& Only(const Datagram& datagram) {
  const auto* const message = reinterpret_cast<const nlmsghdr*>(datagram.data());
  EXPECT_TRUE(mnl_nlmsg_ok(message, static_cast<int>(datagram.size())));
  EXPECT_EQ(message->nlmsg_len, datagram.size());
  return *message;
}

NetlinkNews NewsOf(const Datagram& datagram) {
  NetlinkNews news;
  AddNews(datagram, news);
  return news;
}

struct VlanOptions {
  const char* kind = "vlan";
  uint16_t protocol = ETH_P_8021Q;
  bool elsewhere = false;
};

Datagram VlanLink(const VlanOptions& options) {
  ifinfomsg header{};
  header.ifi_index = 7;
  Builder message(RTM_NEWLINK, header);
  const int32_t lower = 3;
  const uint16_t id = 100;
  const uint16_t protocol = htons(options.protocol);
  message.Add(IFLA_IFNAME, "eth0.100", sizeof("eth0.100"));
  message.Add(IFLA_ADDRESS, kMac.data(), kMac.size());
  message.Add(IFLA_LINK, &lower, sizeof(lower));
  if (options.elsewhere) message.Add(IFLA_LINK_NETNSID, &lower, sizeof(lower));
  nlattr* const info = mnl_attr_nest_start(message.message(), IFLA_LINKINFO);
  message.Add(IFLA_INFO_KIND, options.kind, strlen(options.kind) + 1);
  nlattr* const data = mnl_attr_nest_start(message.message(), IFLA_INFO_DATA);
  message.Add(IFLA_VLAN_ID, &id, sizeof(id));
  message.Add(IFLA_VLAN_PROTOCOL, &protocol, sizeof(protocol));
  mnl_attr_nest_end(message.message(), data);
  mnl_attr_nest_end(message.message(), info);
  return message.Finish();
}

TEST(NetlinkTest, VlanIsReadWithWhatIsBelowIt) {
  const Datagram datagram = VlanLink({});
  EXPECT_EQ(ReadVlan(Only(datagram)), (VlanInterface{7, 3, "eth0.100", 100, kMac}));
}

TEST(NetlinkTest, OtherLinksAreNoVlansOfOurs) {
  EXPECT_FALSE(ReadVlan(Only(VlanLink({.kind = "macvlan"}))));
  EXPECT_FALSE(ReadVlan(Only(VlanLink({.protocol = ETH_P_8021AD}))));
  EXPECT_FALSE(ReadVlan(Only(VlanLink({.elsewhere = true}))))
      << "above a link of another namespace";
}

Datagram Neighbour(uint16_t type, int state, bool with_mac = true) {
  ndmsg header{};
  header.ndm_family = AF_INET;
  header.ndm_ifindex = 3;
  header.ndm_state = static_cast<uint16_t>(state);
  Builder message(type, header);
  message.Add(NDA_DST, Ipv4Gid(0x0a000002));
  if (with_mac) message.Add(NDA_LLADDR, kMac.data(), kMac.size());
  return message.Finish();
}

TEST(NetlinkTest, NeighbourIsKnownWhileTheKernelWouldSendToIt) {
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

TEST(NetlinkTest, NeighbourThatFailedOrWentNeedsAProbe) {
  EXPECT_TRUE(ReadNeighbour(Only(Neighbour(RTM_NEWNEIGH, NUD_FAILED)))->needs_probe);
  EXPECT_FALSE(ReadNeighbour(Only(Neighbour(RTM_NEWNEIGH, NUD_INCOMPLETE)))->needs_probe);
  const auto gone = ReadNeighbour(Only(Neighbour(RTM_DELNEIGH, NUD_REACHABLE)));
  EXPECT_TRUE(gone->deleted);
  EXPECT_TRUE(gone->needs_probe);
  EXPECT_FALSE(gone->mac);
}

Datagram AddressMessage(const Gid& gid, uint8_t prefix, uint32_t flags) {
  ifaddrmsg header{};
  header.ifa_family = gid.is_ipv4() ? AF_INET : AF_INET6;
  header.ifa_prefixlen = prefix;
  header.ifa_index = 3;
  Builder message(RTM_NEWADDR, header);
  message.Add(IFA_ADDRESS, gid);
  message.Add(IFA_FLAGS, &flags, sizeof(flags));
  return message.Finish();
}

TEST(NetlinkTest, AddressCountsItsPrefixInTheGid) {
  const auto v4 = ReadAddress(Only(AddressMessage(Ipv4Gid(0x0a000001), 24, 0)));
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->ifindex, 3);
  EXPECT_EQ(v4->address, Ipv4Gid(0x0a000001));
  EXPECT_EQ(v4->prefix_bits, 120);
  const Gid v6 = ParseInterfaceAddress("2001:db8::1")->gid;
  EXPECT_EQ(ReadAddress(Only(AddressMessage(v6, 64, 0)))->prefix_bits, 64);
}

TEST(NetlinkTest, AddressOfAnotherInterfaceIsNotOurs) {
  const Gid v6 = ParseInterfaceAddress("2001:db8::1")->gid;
  EXPECT_FALSE(ReadAddress(Only(AddressMessage(v6, 64, IFA_F_DADFAILED))));
  EXPECT_TRUE(ReadAddress(Only(AddressMessage(v6, 64, IFA_F_TENTATIVE))));
}

TEST(NetlinkTest, ImpossiblePrefixIsRefused) {
  EXPECT_FALSE(ReadAddress(Only(AddressMessage(Ipv4Gid(0x0a000001), 33, 0))));
}

TEST(NetlinkTest, DatagramHoldsSeveralMessages) {
  Datagram datagram = VlanLink({});
  const Datagram second = Neighbour(RTM_NEWNEIGH, NUD_REACHABLE);
  datagram.insert(datagram.end(), second.begin(), second.end());
  const NetlinkNews news = NewsOf(datagram);
  EXPECT_TRUE(news.links);
  EXPECT_FALSE(news.routes);
  ASSERT_EQ(news.neighbours.size(), 1u);
  EXPECT_EQ(news.neighbours[0].mac, kMac);
}

// Every shorter datagram, in a buffer of just that size: the sanitizers watch.
TEST(NetlinkTest, CutMessagesAreReadAsFarAsTheyGo) {
  for (const Datagram& whole : {VlanLink({}), Neighbour(RTM_NEWNEIGH, NUD_REACHABLE),
                                AddressMessage(Ipv4Gid(0x0a000001), 24, 0)}) {
    for (size_t length = 0; length < whole.size(); ++length) {
      Datagram cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
      const NetlinkNews news = NewsOf(cut);
      EXPECT_FALSE(news.links || !news.neighbours.empty()) << "it says that it is longer";
      if (length < NLMSG_HDRLEN) continue;
      reinterpret_cast<nlmsghdr*>(cut.data())->nlmsg_len = static_cast<uint32_t>(length);
      const nlmsghdr& message = Only(cut);
      ReadVlan(message);
      ReadNeighbour(message);
      ReadAddress(message);
    }
  }
}

TEST(NetlinkTest, AttributeOfNoLengthEndsTheSearch) {
  Datagram datagram = Neighbour(RTM_NEWNEIGH, NUD_REACHABLE);
  datagram[NLMSG_HDRLEN + sizeof(ndmsg)] = 0;  // The first attribute's length.
  EXPECT_FALSE(ReadNeighbour(Only(datagram)));
}

}  // namespace
}  // namespace uroce::nic
