// SPDX-License-Identifier: Apache-2.0
// Who has the MAC of a next hop, where the kernel says so: questions, and when they are given up.
#include "nic/paths/neighbours.h"

#include "tests/nic/paths/paths_bed.h"

namespace uroce::nic {
namespace {

using Answer = std::optional<absl::StatusOr<Mac>>;

class NeighboursTest : public PathsBed {
 protected:
  /// The answer, once it has come.
  Neighbours::Id Resolve(const PathKey& path, Answer& answer,
                         Nanos patience = Neighbours::kPatience) {
    return neighbours_.Resolve(
        path,
        [&answer](const absl::StatusOr<Mac>& mac) {
          EXPECT_FALSE(answer) << "answered twice";
          answer = mac;
        },
        patience);
  }
  absl::Status FailureOf(const PathKey& path) {
    Answer answer;
    Resolve(path, answer);
    timers_.Run(kSecond * 2);
    return answer ? answer->status() : absl::InternalError("no answer");
  }
};

TEST_F(NeighboursTest, DevicesOfOneDaemonKnowEachOther) {
  EXPECT_EQ(neighbours_.Find(To("10.0.0.1")).value().value(), device_.mac());
  EXPECT_EQ(neighbours_.Find(To("10.1.0.1")).value().value(), other_.mac());
  EXPECT_EQ(neighbours_.Find(To("10.0.0.2")), std::nullopt) << "an unknown host";
}

TEST_F(NeighboursTest, AnAddressInAnotherVlanIsAnotherHosts) {
  EXPECT_EQ(neighbours_.Find(To("10.7.0.1")), std::nullopt);
  const PathKey tagged{&device_, 7, Ip("10.7.0.1"), Ip("10.7.0.1")};
  EXPECT_EQ(neighbours_.Find(tagged).value().value(), device_.mac());
}

TEST_F(NeighboursTest, OnAWireTheKernelIsNotAsked) {
  device_.wire_number = 0;
  EXPECT_TRUE(absl::IsDeadlineExceeded(neighbours_.Find(To("10.1.0.1")).value().status()));
  EXPECT_EQ(neighbours_.Find(To("10.0.0.1")).value().value(), device_.mac());
  other_.wire_number = 1;
  EXPECT_TRUE(absl::IsDeadlineExceeded(neighbours_.Find(To("10.1.0.1")).value().status()));
  other_.wire_number = 0;
  EXPECT_EQ(neighbours_.Find(To("10.1.0.1")).value().value(), other_.mac());
}

TEST_F(NeighboursTest, WithoutAnInterfaceTheKernelIsNotAsked) {
  device_.interfaces.clear();
  EXPECT_TRUE(absl::IsUnavailable(neighbours_.Find(To("10.0.0.2")).value().status()));
}

TEST_F(NeighboursTest, AKnownNeighbourIsAnsweredInTheNextTurn) {
  Know("10.0.0.2", 2);
  Answer answer;
  Resolve(To("10.0.0.2"), answer);
  EXPECT_FALSE(answer) << "from within the call";
  timers_.Run(Nanos(0));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->value(), MacOf(2));
  EXPECT_TRUE(kernel_.probes.empty()) << "the kernel knew";
}

TEST_F(NeighboursTest, AnAnswerThatComesLateCounts) {
  Answer answer;
  Resolve(To("10.0.0.2"), answer);
  timers_.Run(Nanos(1'499'000'000));
  EXPECT_FALSE(answer);
  Know("10.0.0.2", 2);
  timers_.Run(kMilli);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->value(), MacOf(2)) << "at the very end";
  EXPECT_EQ(kernel_.probes, (std::vector<TestKernel::Place>{{kInterface, Ip("10.0.0.2")}}));
}

TEST_F(NeighboursTest, AnAnswerThatComesSoonIsSeenSoon) {
  Answer answer;
  Resolve(To("10.0.0.2"), answer);
  timers_.Run(Nanos(0));
  Know("10.0.0.2", 2);
  timers_.Run(Nanos(5'000'000));
  EXPECT_TRUE(answer);
}

TEST_F(NeighboursTest, LooksGrowRare) {
  Answer answer;
  Resolve(To("10.0.0.2"), answer);
  timers_.Run(kSecond * 2);
  EXPECT_GE(kernel_.neighbours_asked, 10);
  EXPECT_LE(kernel_.neighbours_asked, 20);
}

TEST_F(NeighboursTest, WhoNeverAnswersIsGivenUpInTime) {
  Answer answer;
  Resolve(To("10.0.0.2"), answer);
  timers_.Run(Nanos(1'499'999'999));
  EXPECT_FALSE(answer);
  timers_.Run(Nanos(1));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer->status()));
  EXPECT_NE(answer->status().message().find("10.0.0.2"), std::string::npos);
  EXPECT_EQ(timers_.pending(), 0u);
}

// The kernel asks three times, a second apart, and has given up by itself after that.
TEST_F(NeighboursTest, ALongLookupHasTheKernelAskAgain) {
  Answer answer;
  Resolve(To("10.0.0.2"), answer, kSecond * 60);
  timers_.Run(kSecond * 3);
  EXPECT_EQ(kernel_.probes.size(), 1u);
  timers_.Run(kSecond * 6);
  EXPECT_EQ(kernel_.probes.size(), 3u);
  timers_.Run(kSecond * 50);
  EXPECT_FALSE(answer);
  timers_.Run(kSecond);
  EXPECT_TRUE(answer);
}

TEST_F(NeighboursTest, WithoutARouteTheKernelIsNotAsked) {
  kernel_.unreachable.insert(Ip("10.9.0.2"));
  EXPECT_TRUE(absl::IsUnavailable(FailureOf(To("10.9.0.2"))));
  EXPECT_TRUE(kernel_.probes.empty());
}

TEST_F(NeighboursTest, TheGatewaysMacCountsBehindAGateway) {
  kernel_.gateways[{kInterface, Ip("10.9.0.2")}] = Ip("10.0.0.254");
  Know("10.9.0.2", 9);
  Know("10.0.0.254", 2);
  Answer answer;
  Resolve(To("10.9.0.2"), answer);
  timers_.Run(Nanos(0));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->value(), MacOf(2));
}

TEST_F(NeighboursTest, LinkLocalAddressesPassNoGateway) {
  const Gid link_local = Ip("fe80::2");
  const Gid global = Ip("fd00:9::2");
  kernel_.gateways[{kInterface, link_local}] = Ip("fd00::fe");
  kernel_.gateways[{kInterface, global}] = Ip("fd00::fe");
  Know("fd00::fe", 2);
  EXPECT_TRUE(absl::IsUnavailable(FailureOf({&device_, 0, Ip("fd00::1"), link_local})));
  EXPECT_TRUE(absl::IsUnavailable(FailureOf({&device_, 0, Ip("fe80::1"), global})));
  EXPECT_TRUE(FailureOf({&device_, 0, Ip("fd00::1"), global}).ok());
  Know("fe80::3", 3);
  EXPECT_TRUE(FailureOf({&device_, 0, Ip("fe80::1"), Ip("fe80::3")}).ok()) << "on link";
}

TEST_F(NeighboursTest, EachVlanHasItsOwnNeighbours) {
  Know("10.7.0.2", 2, kVlanInterface);
  Answer answer;
  Resolve({&device_, 7, Ip("10.7.0.1"), Ip("10.7.0.2")}, answer);
  timers_.Run(Nanos(0));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->value(), MacOf(2));
  EXPECT_TRUE(absl::IsDeadlineExceeded(FailureOf({&device_, 0, Ip("10.0.0.1"), Ip("10.7.0.2")})));
}

TEST_F(NeighboursTest, ACancelledLookupIsNotAnswered) {
  Answer answer;
  const Neighbours::Id id = Resolve(To("10.0.0.2"), answer);
  timers_.Run(kMilli);
  neighbours_.Cancel(id);
  neighbours_.Cancel(id);
  EXPECT_EQ(timers_.pending(), 0u);
  Know("10.0.0.2", 2);
  timers_.Run(kSecond * 2);
  EXPECT_FALSE(answer);
}

TEST_F(NeighboursTest, TwoWhoWaitForOneNeighbourAreBothAnswered) {
  Answer first;
  Answer second;
  Resolve(To("10.0.0.2"), first);
  timers_.Run(kMilli * 100);
  Resolve(To("10.0.0.2"), second);
  Know("10.0.0.2", 2);
  timers_.Run(kMilli * 200);
  EXPECT_TRUE(first && first->ok());
  EXPECT_TRUE(second && second->ok());
}

TEST_F(NeighboursTest, WhoIsAnsweredMayAskAgain) {
  Know("10.0.0.2", 2);
  Answer second;
  neighbours_.Resolve(To("10.0.0.2"), [&](const absl::StatusOr<Mac>&) {
    Resolve(To("10.0.0.2"), second);
    EXPECT_FALSE(second);
  });
  timers_.Run(Nanos(0));
  EXPECT_TRUE(second);
}

// A port by UDP sockets: packets leave through the kernel, which finds the neighbour.
class NeighboursOfAnyMacTest : public NeighboursTest {
 protected:
  NeighboursOfAnyMacTest() { device_.mac_of_peers = MacOf(0x50); }
  void TearDown() override {
    EXPECT_EQ(kernel_.neighbours_asked, 0);
    EXPECT_TRUE(kernel_.probes.empty());
    EXPECT_EQ(timers_.pending(), 0u);
  }
};

TEST_F(NeighboursOfAnyMacTest, APeerIsKnownAtOnceBehindAGatewayToo) {
  EXPECT_EQ(neighbours_.Find(To("10.0.0.2")).value().value(), MacOf(0x50));
  kernel_.gateways[{kInterface, Ip("10.9.0.2")}] = Ip("10.0.0.254");
  EXPECT_EQ(neighbours_.Find(To("10.9.0.2")).value().value(), MacOf(0x50));
}

TEST_F(NeighboursOfAnyMacTest, WithoutARouteOrAnInterfaceThereIsNoPeer) {
  kernel_.unreachable.insert(Ip("10.9.0.2"));
  EXPECT_TRUE(absl::IsUnavailable(neighbours_.Find(To("10.9.0.2")).value().status()));
  device_.interfaces.clear();
  EXPECT_TRUE(absl::IsUnavailable(neighbours_.Find(To("10.0.0.2")).value().status()));
}

TEST_F(NeighboursOfAnyMacTest, LinkLocalAddressesPassNoGateway) {
  kernel_.gateways[{kInterface, Ip("fe80::2")}] = Ip("fd00::fe");
  const PathKey path{&device_, 0, Ip("fd00::1"), Ip("fe80::2")};
  EXPECT_TRUE(absl::IsUnavailable(neighbours_.Find(path).value().status()));
  EXPECT_EQ(neighbours_.Find({&device_, 0, Ip("fe80::1"), Ip("fe80::3")}).value().value(),
            MacOf(0x50));
}

TEST_F(NeighboursOfAnyMacTest, DevicesOfOneDaemonKnowEachOther) {
  EXPECT_EQ(neighbours_.Find(To("10.1.0.1")).value().value(), other_.mac());
}

TEST_F(NeighboursOfAnyMacTest, NoPathIsFollowed) {
  EXPECT_EQ(neighbours_.Follow(To("10.0.0.2"), MacOf(0x50)), nullptr);
  neighbours_.OnNews(News("10.0.0.2", MacOf(9)));
  EXPECT_TRUE(moved_.empty());
}

}  // namespace
}  // namespace uroce::nic
