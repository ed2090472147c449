// SPDX-License-Identifier: Apache-2.0
// Which paths are followed, and what is news of their next hops.
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

FollowedPath With(FollowedPath path, const Mac& mac) {
  path.mac = mac;
  return path;
}

TEST(FollowedPathsTest, AnotherMacOfTheSameHopIsNews) {
  FollowedPaths paths;
  EXPECT_FALSE(paths.IsNews(To(100, 254))) << "no path is there";
  const auto a = paths.Follow(To(100, 254));
  EXPECT_FALSE(paths.IsNews(To(101, 254)));
  EXPECT_TRUE(paths.IsNews(With(To(101, 254), kSecond)));
  EXPECT_FALSE(paths.IsNews(With(To(102, 253), kSecond))) << "another hop";
  const auto b = paths.Follow(With(To(101, 254), kSecond));
  EXPECT_FALSE(paths.IsNews(With(To(103, 254), kSecond))) << "the newest counts";
  EXPECT_EQ(a->mac, kFirst);
}

TEST(FollowedPathsTest, APathMovesOnce) {
  FollowedPaths paths;
  const auto path = paths.Follow(To(2, 2));
  EXPECT_FALSE(paths.Move(*path, Ip(2), kFirst));
  EXPECT_TRUE(paths.Move(*path, Ip(2), kSecond));
  EXPECT_EQ(path->mac, kSecond);
  EXPECT_FALSE(paths.Move(*path, Ip(2), kSecond));
  EXPECT_TRUE(paths.Move(*path, Ip(3), kSecond));
  EXPECT_EQ(path->next_hop, Ip(3));
  EXPECT_TRUE(paths.IsNews(To(3, 3)));
}

TEST(FollowedPathsTest, AHopIsOneOfItsVlanAndDevice) {
  FollowedPaths paths;
  const auto untagged = paths.Follow(To(2, 2));
  EXPECT_FALSE(paths.IsNews(With(To(2, 2, 100), kSecond)));
  FollowedPath other = With(To(2, 2), kSecond);
  EXPECT_TRUE(paths.IsNews(other));
  other.key.device = kOtherDevice;
  EXPECT_FALSE(paths.IsNews(other));
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
  EXPECT_TRUE(paths.Held().empty());
  for (uint32_t host = 3; host < 1000; ++host) paths.Follow(To(host, host));
  EXPECT_TRUE(paths.Held().empty());
  EXPECT_FALSE(paths.IsNews(With(To(2, 2), kSecond))) << "its hop is forgotten too";
}

TEST(FollowedPathsTest, HopsThatAPathHasLeftAreForgotten) {
  FollowedPaths paths;
  const auto path = paths.Follow(To(2, 2));
  for (uint32_t hop = 3; hop < 1000; ++hop) paths.Follow(To(2, hop));
  EXPECT_FALSE(paths.IsNews(With(To(2, 2), kSecond)));
  EXPECT_TRUE(paths.IsNews(With(To(2, 999), kSecond)));
}

}  // namespace
}  // namespace uroce::nic
