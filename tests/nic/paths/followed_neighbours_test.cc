// SPDX-License-Identifier: Apache-2.0
// Paths in use, while the kernel's neighbours and routes change.
#include <absl/strings/str_format.h>

#include <string>
#include <vector>

#include "tests/nic/paths/paths_bed.h"

namespace uroce::nic {
namespace {

constexpr Nanos kSettleTime{50'000'000};
constexpr Nanos kAskAgain{2'000'000'000};

class FollowedNeighboursTest : public PathsBed {
 protected:
  FollowedPaths::Holder Follow(const char* destination, uint8_t mac = 2) {
    return neighbours_.Follow(To(destination), MacOf(mac));
  }
  /// Of a neighbour that is in use: known no more, or not confirmed.
  static NetlinkNews Doubt(const char* address, std::optional<Mac> mac, bool deleted = false) {
    NetlinkNews news = News(address, mac);
    news.neighbours[0].needs_probe = true;
    news.neighbours[0].deleted = deleted;
    return news;
  }
};

TEST_F(FollowedNeighboursTest, UsingANeighbourKeepsTheKernelAsking) {
  const auto path = Follow("10.0.0.2");
  ASSERT_NE(path, nullptr);
  EXPECT_EQ(path->mac, MacOf(2));
  EXPECT_EQ(path->next_hop, Ip("10.0.0.2"));
  EXPECT_EQ(kernel_.probes, (std::vector<TestKernel::Place>{{kInterface, Ip("10.0.0.2")}}));
}

TEST_F(FollowedNeighboursTest, WhereTheKernelHasNoSayNothingIsFollowed) {
  EXPECT_EQ(Follow("10.1.0.1"), nullptr) << "another device of the daemon";
  kernel_.unreachable.insert(Ip("10.0.0.3"));
  EXPECT_EQ(Follow("10.0.0.3"), nullptr);
  device_.interfaces.clear();
  EXPECT_EQ(Follow("10.0.0.2"), nullptr);
}

TEST_F(FollowedNeighboursTest, ANewMacMovesLivePathsAtOnce) {
  const auto path = Follow("10.0.0.2");
  const auto bystander = Follow("10.0.0.3", 3);
  neighbours_.OnNews(News("10.0.0.2", MacOf(9)));
  ASSERT_EQ(moved_.size(), 1u);
  EXPECT_EQ(moved_[0].key, To("10.0.0.2"));
  EXPECT_EQ(moved_[0].mac, MacOf(9));
  EXPECT_EQ(path->mac, MacOf(9));
  EXPECT_EQ(bystander->mac, MacOf(3));
  neighbours_.OnNews(News("10.0.0.2", MacOf(9)));
  EXPECT_EQ(moved_.size(), 1u) << "told twice";
}

TEST_F(FollowedNeighboursTest, NewsOfAnotherInterfaceAreOfAnotherNeighbour) {
  const auto path = Follow("10.0.0.2");
  neighbours_.OnNews(News("10.0.0.2", MacOf(9), kOtherInterface));
  neighbours_.OnNews(News("10.0.0.2", MacOf(9), kVlanInterface));
  EXPECT_TRUE(moved_.empty());
}

TEST_F(FollowedNeighboursTest, APathWithoutHoldersIsNotFollowed) {
  auto path = Follow("10.0.0.2");
  path.reset();
  neighbours_.OnNews(News("10.0.0.2", MacOf(9)));
  EXPECT_TRUE(moved_.empty());
}

TEST_F(FollowedNeighboursTest, AGatewaysNewMacMovesAllPathsByIt) {
  kernel_.gateways[{kInterface, Ip("10.8.0.2")}] = Ip("10.0.0.254");
  kernel_.gateways[{kInterface, Ip("10.9.0.2")}] = Ip("10.0.0.254");
  const auto first = Follow("10.8.0.2");
  const auto second = Follow("10.9.0.2", 9);
  ASSERT_EQ(moved_.size(), 1u) << "the last answer counts";
  EXPECT_EQ(first->mac, MacOf(9));
  neighbours_.OnNews(News("10.0.0.254", MacOf(5)));
  timers_.Run(Neighbours::kBetweenPasses);
  EXPECT_EQ(moved_.size(), 3u);
  EXPECT_EQ(second->mac, MacOf(5));
}

TEST_F(FollowedNeighboursTest, AStaleNeighbourIsProbedAtOnce) {
  const auto path = Follow("10.0.0.2");
  kernel_.probes.clear();
  neighbours_.OnNews(Doubt("10.0.0.2", MacOf(2)));
  EXPECT_EQ(kernel_.probes.size(), 1u);
  EXPECT_EQ(timers_.pending(), 0u);
}

TEST_F(FollowedNeighboursTest, AnUnusedNeighbourIsLeftAlone) {
  neighbours_.OnNews(Doubt("10.0.0.2", MacOf(2)));
  neighbours_.OnNews(Doubt("10.0.0.2", std::nullopt));
  timers_.Run(Neighbours::kBetweenPasses);
  EXPECT_TRUE(kernel_.probes.empty());
  EXPECT_EQ(timers_.pending(), 0u);
}

TEST_F(FollowedNeighboursTest, ASilentNeighbourIsAskedAgainWhileInUse) {
  const auto path = Follow("10.0.0.2");
  kernel_.probes.clear();
  neighbours_.OnNews(Doubt("10.0.0.2", std::nullopt));
  timers_.Run(kAskAgain - Nanos(1));
  EXPECT_TRUE(kernel_.probes.empty());
  timers_.Run(Nanos(1));
  EXPECT_EQ(kernel_.probes.size(), 1u);
  EXPECT_EQ(path->mac, MacOf(2)) << "retransmission decides how long it lives";
  EXPECT_TRUE(moved_.empty());
}

TEST_F(FollowedNeighboursTest, ADeletedNeighbourIsAskedForSoon) {
  const auto path = Follow("10.0.0.2");
  kernel_.probes.clear();
  neighbours_.OnNews(Doubt("10.0.0.2", std::nullopt, true));
  timers_.Run(kSettleTime);
  EXPECT_EQ(kernel_.probes.size(), 1u);
}

TEST_F(FollowedNeighboursTest, WhatIsDueSoonerIsNotPutOff) {
  const auto path = Follow("10.0.0.2");
  kernel_.probes.clear();
  neighbours_.OnNews({.routes = true});
  neighbours_.OnNews(Doubt("10.0.0.2", std::nullopt));
  timers_.Run(kSettleTime);
  EXPECT_EQ(kernel_.probes.size(), 1u);
}

TEST_F(FollowedNeighboursTest, ANewRouteLeadsToItsGateway) {
  const auto path = Follow("10.9.0.2");
  kernel_.gateways[{kInterface, Ip("10.9.0.2")}] = Ip("10.0.0.254");
  Know("10.0.0.254", 5);
  neighbours_.OnNews({.routes = true});
  timers_.Run(kSettleTime - Nanos(1));
  EXPECT_TRUE(moved_.empty()) << "routes change in storms";
  timers_.Run(Nanos(1));
  ASSERT_EQ(moved_.size(), 1u);
  EXPECT_EQ(moved_[0].mac, MacOf(5));
  neighbours_.OnNews(News("10.0.0.254", MacOf(6)));
  timers_.Run(Neighbours::kBetweenPasses);
  EXPECT_EQ(path->mac, MacOf(6)) << "its next hop is the gateway";
}

TEST_F(FollowedNeighboursTest, AGatewayThatIsNotKnownIsLookedFor) {
  const auto path = Follow("10.9.0.2");
  kernel_.probes.clear();
  kernel_.gateways[{kInterface, Ip("10.9.0.2")}] = Ip("10.0.0.254");
  neighbours_.OnNews({.routes = true});
  timers_.Run(kSettleTime);
  EXPECT_EQ(kernel_.probes, (std::vector<TestKernel::Place>{{kInterface, Ip("10.0.0.254")}}));
  EXPECT_TRUE(moved_.empty());
  neighbours_.OnNews(News("10.0.0.254", MacOf(5)));
  EXPECT_EQ(moved_.size(), 1u);
}

TEST_F(FollowedNeighboursTest, APathWithoutARouteStaysAsItIs) {
  const auto path = Follow("10.0.0.2");
  kernel_.unreachable.insert(Ip("10.0.0.2"));
  neighbours_.OnNews({.routes = true});
  timers_.Run(kSecond);
  device_.interfaces.clear();
  neighbours_.OnNews({.links = true});
  timers_.Run(kSecond);
  EXPECT_TRUE(moved_.empty());
  EXPECT_EQ(path->mac, MacOf(2));
}

// The link was away, and the other host came back with another MAC.
TEST_F(FollowedNeighboursTest, ALinkThatComesBackIsLookedAtAgain) {
  const auto path = Follow("10.0.0.2");
  Know("10.0.0.2", 9);
  neighbours_.OnNews({.links = true});
  timers_.Run(kSettleTime);
  EXPECT_EQ(path->mac, MacOf(9));
  EXPECT_EQ(moved_.size(), 1u);
}

TEST_F(FollowedNeighboursTest, OneLookFollowsAStorm) {
  const auto path = Follow("10.0.0.2");
  kernel_.routes_asked = 0;
  for (int i = 0; i < 100; ++i) neighbours_.OnNews({.links = true, .routes = true});
  EXPECT_EQ(timers_.pending(), 1u);
  timers_.Run(kSecond);
  EXPECT_EQ(kernel_.routes_asked, 1);
}

// Any host of the network can say as often as it likes that its MAC is another one.
TEST_F(FollowedNeighboursTest, AMacThatChangesAllTheTimeMovesPathsFiftyTimesASecond) {
  const auto path = Follow("10.0.0.2");
  for (int i = 0; i < 1000; ++i) {
    neighbours_.OnNews(News("10.0.0.2", MacOf(static_cast<uint8_t>(3 + i % 7))));
    timers_.Run(kMilli);
  }
  EXPECT_GE(moved_.size(), 10u);
  EXPECT_LE(moved_.size(), 51u);
  timers_.Run(Neighbours::kBetweenPasses);
  EXPECT_EQ(moved_.back().mac, MacOf(3 + 999 % 7)) << "the last one counts";
  EXPECT_EQ(path->mac, moved_.back().mac);
}

// Programs ask again and again, and a host answers so.
TEST_F(FollowedNeighboursTest, AnswersThatChangeAllTheTimeMovePathsFiftyTimesASecond) {
  const auto path = Follow("10.0.0.2");
  kernel_.gateways[{kInterface, Ip("10.9.0.2")}] = Ip("10.0.0.2");
  FollowedPaths::Holder other;
  for (int i = 0; i < 1000; ++i) {
    other = Follow("10.9.0.2", static_cast<uint8_t>(3 + i % 7));
    timers_.Run(kMilli);
  }
  EXPECT_GE(moved_.size(), 10u);
  EXPECT_LE(moved_.size(), 51u);
  timers_.Run(Neighbours::kBetweenPasses);
  EXPECT_EQ(path->mac, MacOf(3 + 999 % 7)) << "the last one counts";
  EXPECT_EQ(other->mac, path->mac);
}

TEST_F(FollowedNeighboursTest, NewsBeyondTheBoundAreFoundByALookAtAllPaths) {
  const auto path = Follow("10.0.0.2");
  neighbours_.OnNews(News("10.0.0.3", MacOf(3)));  // The next pass comes later.
  for (size_t i = 0; i < Neighbours::kMostNews; ++i) {
    neighbours_.OnNews(News(absl::StrFormat("10.7.%d.%d", i / 250, i % 250).c_str(), MacOf(3)));
  }
  kernel_.routes_asked = 0;
  Know("10.0.0.2", 9);
  neighbours_.OnNews(News("10.0.0.2", MacOf(9)));
  timers_.Run(Neighbours::kBetweenPasses);
  EXPECT_EQ(path->mac, MacOf(2)) << "there is no room for these news";
  timers_.Run(kSettleTime);
  EXPECT_EQ(kernel_.routes_asked, 1);
  EXPECT_EQ(path->mac, MacOf(9));
  EXPECT_EQ(moved_.size(), 1u);
}

TEST_F(FollowedNeighboursTest, NewsDuringALookAtAllPathsAreLookedAtAfterIt) {
  std::vector<FollowedPaths::Holder> paths;
  for (int i = 0; i < 40; ++i) {
    const std::string address = absl::StrFormat("10.9.0.%d", i + 1);
    paths.push_back(Follow(address.c_str()));
    Know(address.c_str(), 2);
  }
  neighbours_.OnNews({.routes = true});
  timers_.FireNext();
  for (int i = 0; i < 40; ++i) Know(absl::StrFormat("10.9.0.%d", i + 1).c_str(), 7);
  neighbours_.OnNews({.routes = true});
  timers_.Run(kSecond);
  for (const auto& path : paths) EXPECT_EQ(path->mac, MacOf(7));
}

TEST_F(FollowedNeighboursTest, ALookAtManyPathsMovesThemFiftyTimesASecond) {
  std::vector<FollowedPaths::Holder> paths;
  for (int i = 0; i < 100; ++i) {
    const std::string address = absl::StrFormat("10.9.0.%d", i + 1);
    paths.push_back(Follow(address.c_str()));
    Know(address.c_str(), 7);
  }
  neighbours_.OnNews({.routes = true});
  timers_.Run(kSettleTime);
  EXPECT_EQ(moved_.size(), 32u);
  timers_.Run(Neighbours::kBetweenPasses);
  EXPECT_EQ(moved_.size(), 100u);
}

TEST_F(FollowedNeighboursTest, ManyPathsAreLookedAtSomeAtATime) {
  std::vector<FollowedPaths::Holder> paths;
  for (int i = 0; i < 100; ++i) {
    paths.push_back(Follow(absl::StrFormat("10.9.0.%d", i + 1).c_str()));
  }
  neighbours_.OnNews({.routes = true});
  kernel_.routes_asked = 0;
  timers_.FireNext();
  EXPECT_EQ(kernel_.routes_asked, 32);
  timers_.Run(kMilli);
  EXPECT_EQ(kernel_.routes_asked, 100);
  EXPECT_EQ(timers_.pending(), 0u);
}

}  // namespace
}  // namespace uroce::nic
