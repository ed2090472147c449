// SPDX-License-Identifier: Apache-2.0
// Programs that die, networks that lose, devices that go.
#include <algorithm>

#include "tests/nic/rdma_cm/service_bed.h"

namespace uroce::nic::rdma_cm {
namespace {

class DeathTest : public RdmaCmTest {
 protected:
  bool HasLeft(Host& host) const {
    bool none = true;
    host.service->ForEach([&](const Owner&, EndpointId, const EndpointInfo&) { none = false; });
    return none && !host.service->has_farewells();
  }
  size_t CountSent(wire::CmAttribute attribute) const {
    return static_cast<size_t>(std::ranges::count(net.sent, attribute));
  }
};

TEST_F(DeathTest, PeersOfADeadProgramAreDisconnected) {
  Listen();
  const Pair pair = Connected();
  client.client.reset();
  net.Run();
  EXPECT_EQ(server.Take(EventKind::kDisconnected).id, pair.passive);
  EXPECT_TRUE(net[0].service->has_farewells()) << "until the other program answers";
  ASSERT_EQ(server.client->Disconnect(pair.passive), Result::kOk);
  net.Run();
  EXPECT_TRUE(HasLeft(net[0]));
}

TEST_F(DeathTest, AFarewellThatIsLostIsRepeated) {
  Listen();
  Connected();
  net.deaf = {2};
  client.client.reset();
  net.Run();
  EXPECT_TRUE(server.events.empty());
  net.deaf = {};
  net.Run(kMs * 20'000);
  server.Take(EventKind::kDisconnected);
}

TEST_F(DeathTest, AClientThatDiesBeforeTheReplyTakesItsRequestBack) {
  Listen();
  const Pair pair = Request();
  client.client.reset();
  net.Run();
  EXPECT_EQ(server.Take(EventKind::kRejected).id, pair.passive);
  EXPECT_EQ(server.client->Accept(pair.passive, WithQpn(3)), Result::kWrongState);
}

TEST_F(DeathTest, AClientThatDiesWithTheReplyRefusesIt) {
  Listen();
  const Pair pair = Request();
  ASSERT_EQ(server.client->Accept(pair.passive, WithQpn(3)), Result::kOk);
  net.Run();
  client.client.reset();
  net.Run();
  EXPECT_EQ(server.Take(EventKind::kRejected).id, pair.passive);
}

TEST_F(DeathTest, AServerThatDiesRefusesWhatItHasNotAnswered) {
  Listen();
  const Pair pair = Request();
  ASSERT_EQ(client.client->Connect(Resolved(), WithQpn(++last_qpn)), Result::kOk);
  net.Run();
  server.client.reset();
  net.Run();
  EXPECT_EQ(client.Take(EventKind::kRejected).status, 28);
  EXPECT_EQ(client.Take(EventKind::kRejected).status, 28);
  EXPECT_TRUE(HasLeft(net[1]));
  const EndpointId again = Resolved();
  ASSERT_EQ(client.client->Connect(again, WithQpn(++last_qpn)), Result::kOk);
  net.Run();
  EXPECT_EQ(client.Take(EventKind::kRejected).status, 8) << "its listener has gone too";
  EXPECT_NE(again, pair.active);
}

TEST_F(DeathTest, AServerThatDiesAfterItsReplyEndsTheConnection) {
  Listen();
  const Pair pair = Request();
  ASSERT_EQ(server.client->Accept(pair.passive, WithQpn(3)), Result::kOk);
  net.Run();
  client.Take(EventKind::kConnectResponse);
  server.client.reset();
  net.Run();
  ASSERT_FALSE(client.events.empty());
  EXPECT_EQ(client.events.front().id, pair.active);
  EXPECT_TRUE(HasLeft(net[1]));
}

TEST_F(DeathTest, ConnectionsCompleteThoughMadsAreLostAndRepeated) {
  const EndpointId listener = Listen();
  net.chance.seed(1);
  net.loss_percent = 10;
  net.repeat_percent = 10;
  for (int i = 0; i < 100; ++i) {
    const EndpointId active = Resolved();
    ASSERT_EQ(client.client->Connect(active, WithQpn(++last_qpn)), Result::kOk);
    net.Run(kMs * 60'000);
    const EndpointId passive = server.Take(EventKind::kConnectRequest).id;
    ASSERT_EQ(server.client->TakeRequest(passive), Result::kOk);
    ASSERT_EQ(server.client->Accept(passive, WithQpn(++last_qpn)), Result::kOk);
    net.Run(kMs * 60'000);
    EXPECT_EQ(client.Take(EventKind::kConnectResponse).id, active);
    ASSERT_EQ(client.client->Establish(active), Result::kOk);
    net.Run(kMs * 60'000);
    EXPECT_EQ(server.Take(EventKind::kEstablished).id, passive);
    ASSERT_EQ(client.client->Destroy(active), Result::kOk);
    net.Run(kMs * 60'000);
    EXPECT_EQ(server.Take(EventKind::kDisconnected).id, passive);
    ASSERT_EQ(server.client->Destroy(passive), Result::kOk);
    net.Run(kMs * 60'000);
    server.events.clear();
  }
  EXPECT_GT(net[0].service->counters().retransmitted + net[1].service->counters().retransmitted,
            10u);
  ASSERT_EQ(server.client->Destroy(listener), Result::kOk);
  EXPECT_TRUE(HasLeft(net[0]));
  EXPECT_TRUE(HasLeft(net[1]));
}

TEST_F(DeathTest, ADeviceThatGoesIsToldToAllThatIsOnIt) {
  const EndpointId listener = Listen();
  const Pair pair = Connected();
  const EndpointId bound = server.Create();
  ASSERT_EQ(server.client->Bind(bound, {.address = Ip(2)}), Result::kOk);
  net[1].service->OnDeviceGone(0);
  std::set<EndpointId> told;
  for (; !server.events.empty(); server.events.pop_front()) {
    EXPECT_EQ(server.events.front().kind, EventKind::kDeviceRemoval);
    told.insert(server.events.front().id);
  }
  EXPECT_EQ(told, (std::set<EndpointId>{pair.passive, bound}))
      << "the listener is at home at no device";
  EXPECT_EQ(server.client->Destroy(listener), Result::kOk);
}

TEST_F(DeathTest, ADeviceThatGoesEndsWhatIsLookedForThere) {
  const EndpointId id = client.Create();
  const SocketAddress from{.address = Ip(1)};
  const SocketAddress absent{.address = Ip(150), .port = kPort};
  ASSERT_EQ(client.client->ResolveAddress(id, &from, absent, kMs * 100), Result::kOk);
  net[0].service->OnDeviceGone(0);
  EXPECT_EQ(client.Take(EventKind::kDeviceRemoval).id, id);
  net.Run(kMs * 1000);
  EXPECT_TRUE(client.events.empty()) << "it is told once, and nothing else";
  net[0].service->OnDeviceGone(0);
  EXPECT_TRUE(client.events.empty());
}

TEST_F(DeathTest, AListenerOfADeviceThatWentTakesNoRequests) {
  const EndpointId listener = server.Create();
  ASSERT_EQ(server.client->Bind(listener, {.address = Ip(2), .port = kPort}), Result::kOk);
  ASSERT_EQ(server.client->Listen(listener, 16), Result::kOk);
  net[1].service->OnDeviceGone(0);
  server.Take(EventKind::kDeviceRemoval);
  const EndpointId active = Resolved();
  ASSERT_EQ(client.client->Connect(active, WithQpn(1)), Result::kOk);
  net.Run();
  EXPECT_TRUE(server.events.empty());
  EXPECT_EQ(client.Take(EventKind::kRejected).id, active);
}

TEST_F(DeathTest, AnotherMacIsToldToAllThatIsOnTheDeviceAndTheyGoOn) {
  Listen();
  const Pair pair = Connected();
  net[1].service->OnMacChange(0);
  EXPECT_EQ(server.Take(EventKind::kAddressChange).id, pair.passive);
  EXPECT_TRUE(server.events.empty()) << "the listener is at home at no device";
  ASSERT_EQ(client.client->Disconnect(pair.active), Result::kOk);
  net.Run();
  EXPECT_EQ(server.Take(EventKind::kDisconnected).id, pair.passive);
}

TEST_F(DeathTest, MalformedMadsAreCountedAndForgotten) {
  std::array<uint8_t, wire::kMadBytes> mad{};
  net[0].service->OnMad({.local = Ip(1), .remote = Ip(2)}, mad);
  EXPECT_EQ(net[0].service->counters().decoded[static_cast<size_t>(
                wire::CmDecodeResult::kBadBaseVersion)],
            1u);
  EXPECT_TRUE(net.sent.empty());
}

}  // namespace
}  // namespace uroce::nic::rdma_cm
