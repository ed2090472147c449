// SPDX-License-Identifier: Apache-2.0
// A port that is its own host: it finds its neighbours by ARP and neighbour discovery, here on a
// cable to another host.
#include "nic/net/host/neighbour_messages.h"
#include "nic/net/route.h"
#include "tests/nic/paths/paths_bed.h"

namespace uroce::nic {
namespace {

using Answer = std::optional<absl::StatusOr<Mac>>;

class HostNeighboursTest : public PathsBed {
 protected:
  static constexpr Mac kPeerMac = MacOf(0x99);

  HostNeighboursTest() {
    device_.has_host = true;
    device_.interfaces.clear();
    device_.own_routes = {ParseRoute("10.9.0.0/16 via 10.0.0.2").value()};
    Connect(channel_, peer_channel_);
    Connect(peer_channel_, channel_);
    StartPeer(kPeerMac);
  }
  void Connect(TestChannel& from, TestChannel& to) {
    from.on_send = [this, &to](const TestChannel::Bytes& frame) {
      timers_.After(Nanos(1000), [this, &to, frame] {
        if (is_connected_) to.Bring(frame);
      });
    };
  }
  /// The machine at the other end, again.
  void StartPeer(const Mac& mac) {
    peer_.reset();
    const HostConfig config{mac, {Address("10.0.0.2/24"), Address("fd00::2/64")}, {}};
    HostStack::Listener listener{[] {}, [](const NextHop&, const std::optional<Mac>&) {}};
    peer_ = std::make_unique<HostStack>(timers_, peer_channel_, "peer", config, listener);
    peer_->OnLink(true);
  }
  void Start() {
    neighbours_.StartHost(
        device_, channel_,
        {device_.mac(), {Address("10.0.0.1/24"), Address("fd00::1/64")}, device_.own_routes},
        [this](std::vector<InterfaceAddress> addresses) { usable_ = std::move(addresses); });
  }
  Answer Resolve(const PathKey& path, Nanos time = kSecond * 2) {
    Answer answer;
    const auto id =
        neighbours_.Resolve(path, [&answer](const absl::StatusOr<Mac>& mac) { answer = mac; });
    timers_.Run(time);
    neighbours_.Cancel(id);
    return answer;
  }
  /// Questions of ours for who has `address`, since the last call.
  size_t Questions(const char* address) {
    size_t count = 0;
    for (const TestChannel::Bytes& frame : channel_.TakeSent()) {
      constexpr size_t kHeaderBytes = 14;
      ArpPacket packet;
      if (frame[12] != 0x08 || frame[13] != 0x06) continue;
      if (ParseArp(std::span(frame).subspan(kHeaderBytes), packet) != FrameResult::kTaken) continue;
      count += packet.is_request && packet.target == Ip(address) ? 1 : 0;
    }
    return count;
  }

  bool is_connected_ = true;
  TestChannel peer_channel_;
  std::unique_ptr<HostStack> peer_;
  std::vector<InterfaceAddress> usable_;
};

TEST_F(HostNeighboursTest, AddressesAreUsedWhenNoOtherHostHasThem) {
  Start();
  EXPECT_TRUE(neighbours_.has_tentative_address());
  EXPECT_TRUE(usable_.empty());
  timers_.Run(kSecond);
  EXPECT_EQ(usable_.size(), 2u);
  EXPECT_FALSE(neighbours_.has_tentative_address());
}

TEST_F(HostNeighboursTest, AnAddressOfTheOtherHostIsNotUsed) {
  timers_.Run(kSecond);
  neighbours_.StartHost(
      device_, channel_, {device_.mac(), {Address("10.0.0.2/24"), Address("10.0.0.3/24")}, {}},
      [this](std::vector<InterfaceAddress> addresses) { usable_ = std::move(addresses); });
  timers_.Run(kSecond);
  EXPECT_EQ(usable_, (std::vector<InterfaceAddress>{Address("10.0.0.3/24")}));
}

TEST_F(HostNeighboursTest, ItAnswersForItsNeighbours) {
  Start();
  timers_.Run(kSecond);
  EXPECT_EQ(neighbours_.Find(To("10.0.0.2")), std::nullopt) << "to be asked for";
  EXPECT_EQ(Resolve(To("10.0.0.2")).value().value(), kPeerMac);
  EXPECT_EQ(Resolve({&device_, 0, Ip("fd00::1"), Ip("fd00::2")}).value().value(), kPeerMac);
  EXPECT_EQ(kernel_.neighbours_asked + kernel_.routes_asked, 0) << "the kernel has no say";
}

TEST_F(HostNeighboursTest, ItsRoutesLeadToGateways) {
  Start();
  timers_.Run(kSecond);
  EXPECT_EQ(Resolve(To("10.9.1.1")).value().value(), kPeerMac);
  EXPECT_TRUE(absl::IsUnavailable(Resolve(To("192.0.2.1")).value().status()));
}

TEST_F(HostNeighboursTest, WhoNeverAnswersIsGivenUpInTime) {
  Start();
  timers_.Run(kSecond);
  EXPECT_FALSE(Resolve(To("10.0.0.77"), Nanos(1'499'999'999)));
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(Resolve(To("10.0.0.78"), Nanos(1'500'000'000)).value().status()));
}

TEST_F(HostNeighboursTest, ANewMacMovesLivePaths) {
  Start();
  timers_.Run(kSecond);
  const auto path = neighbours_.Follow(To("10.0.0.2"), Resolve(To("10.0.0.2")).value().value());
  ASSERT_NE(path, nullptr);
  StartPeer(MacOf(0x77));
  timers_.Run(kSecond * 2);
  ASSERT_EQ(moved_.size(), 1u);
  EXPECT_EQ(moved_[0].key, To("10.0.0.2"));
  EXPECT_EQ(path->mac, MacOf(0x77));
}

TEST_F(HostNeighboursTest, ASilentNeighboursPathsStayAsTheyAre) {
  Start();
  timers_.Run(kSecond);
  const auto path = neighbours_.Follow(To("10.0.0.2"), Resolve(To("10.0.0.2")).value().value());
  is_connected_ = false;
  timers_.Run(kSecond * 60);
  EXPECT_TRUE(moved_.empty());
  EXPECT_EQ(path->mac, kPeerMac);
  EXPECT_GT(Questions("10.0.0.2"), 3u) << "asked for again while it is in use";
}

TEST_F(HostNeighboursTest, WithoutALinkNoQuestionIsSent) {
  device_.has_link = false;
  Start();
  EXPECT_FALSE(neighbours_.has_tentative_address()) << "no question without a link";
  timers_.Run(kSecond);
  EXPECT_TRUE(channel_.sent.empty());
  device_.has_link = true;
  neighbours_.OnLink(device_);
  timers_.Run(kSecond);
  EXPECT_EQ(usable_.size(), 2u);
}

TEST_F(HostNeighboursTest, ALinkThatComesBackHasUsedNeighboursProbed) {
  Start();
  timers_.Run(kSecond);
  const auto path = neighbours_.Follow(To("10.0.0.2"), Resolve(To("10.0.0.2")).value().value());
  device_.has_link = false;
  neighbours_.OnLink(device_);
  timers_.Run(kSecond);
  Questions("10.0.0.2");
  device_.has_link = true;
  neighbours_.OnLink(device_);
  timers_.Run(kMilli * 100);
  EXPECT_EQ(Questions("10.0.0.2"), 1u);
}

TEST_F(HostNeighboursTest, MalformedFramesAreTold) {
  Start();
  TestChannel::Bytes frame(60);
  std::copy(device_.mac().begin(), device_.mac().end(), frame.begin());
  frame[6] = 2;
  EXPECT_TRUE(channel_.Bring(frame)) << "of another protocol";
  frame[12] = 0x08;
  frame[13] = 0x06;
  EXPECT_FALSE(channel_.Bring(frame)) << "no ARP";
}

TEST_F(HostNeighboursTest, GroupsAreReported) {
  Start();
  timers_.Run(kSecond * 10);
  channel_.TakeSent();
  neighbours_.SetGroup(device_, Ip("239.1.2.3"), true);
  timers_.Run(kSecond);
  EXPECT_FALSE(channel_.TakeSent().empty());
}

}  // namespace
}  // namespace uroce::nic
