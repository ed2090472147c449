// SPDX-License-Identifier: Apache-2.0
// Which paths change when a neighbour gets another MAC.
#include "nic/net/followed_paths.h"

#include <gtest/gtest.h>

#include "nic/net/address.h"

namespace uroce::nic {
namespace {

constexpr Mac kFirst{2, 0, 0, 0, 0, 1};
constexpr Mac kSecond{2, 0, 0, 0, 0, 2};

// Devices are told apart by their addresses alone.
const auto* const kDevice = reinterpret_cast<const NetDevice*>(uintptr_t{0x1000});
const auto* const kOtherDevice = reinterpret_cast<const NetDevice*>(uintptr_t{0x2000});

Gid Ip(uint32_t host) { return Ipv4Gid(0x0a000000 + host); }

FollowedPath To(uint32_t host, uint32_t hop, uint16_t vlan_id = 0) {
  return {{kDevice, vlan_id, Ip(1), Ip(host)}, Ip(hop), kFirst};
}

TEST(FollowedPathsTest, AllPathsByARouterMoveWithIt) {
  FollowedPaths paths;
  const auto a = paths.Follow(To(100, 254));
  const auto b = paths.Follow(To(101, 254));
  const auto c = paths.Follow(To(102, 253));
  const std::vector<FollowedPath> moved = paths.OnNeighbour(kDevice, 0, Ip(254), kSecond);
  ASSERT_EQ(moved.size(), 2u);
  EXPECT_EQ(moved[0].mac, kSecond);
  EXPECT_EQ(a->mac, kSecond);
  EXPECT_EQ(b->mac, kSecond);
  EXPECT_EQ(c->mac, kFirst);
}

TEST(FollowedPathsTest, TheSameMacAgainMovesNothing) {
  FollowedPaths paths;
  const auto path = paths.Follow(To(2, 2));
  EXPECT_TRUE(paths.OnNeighbour(kDevice, 0, Ip(2), kFirst).empty());
  EXPECT_EQ(paths.OnNeighbour(kDevice, 0, Ip(2), kSecond).size(), 1u);
  EXPECT_TRUE(paths.OnNeighbour(kDevice, 0, Ip(2), kSecond).empty());
}

TEST(FollowedPathsTest, NeighbourIsOneOfItsVlanAndDevice) {
  FollowedPaths paths;
  const auto untagged = paths.Follow(To(2, 2));
  const auto tagged = paths.Follow(To(2, 2, 100));
  EXPECT_EQ(paths.OnNeighbour(kDevice, 100, Ip(2), kSecond).size(), 1u);
  EXPECT_EQ(untagged->mac, kFirst);
  EXPECT_EQ(tagged->mac, kSecond);
  EXPECT_TRUE(paths.OnNeighbour(kOtherDevice, 0, Ip(2), kSecond).empty());
}

TEST(FollowedPathsTest, QueuePairsOfOnePathShareIt) {
  FollowedPaths paths;
  const auto first = paths.Follow(To(2, 2));
  const auto second = paths.Follow(To(2, 254));
  EXPECT_EQ(first, second);
  EXPECT_EQ(first->next_hop, Ip(254)) << "the newest next hop counts";
  EXPECT_EQ(paths.Held().size(), 1u);
}

TEST(FollowedPathsTest, PathWithoutHoldersIsForgotten) {
  FollowedPaths paths;
  auto path = paths.Follow(To(2, 2));
  path.reset();
  EXPECT_TRUE(paths.OnNeighbour(kDevice, 0, Ip(2), kSecond).empty());
  EXPECT_TRUE(paths.Held().empty());
  for (uint32_t host = 3; host < 1000; ++host) paths.Follow(To(host, host));
  EXPECT_TRUE(paths.Held().empty());
}

}  // namespace
}  // namespace uroce::nic
