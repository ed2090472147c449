// SPDX-License-Identifier: Apache-2.0
// 127.0.0.1 and ::1: addresses of no device, by which programs of one host reach each other.
#include <cerrno>

#include "tests/nic/rdma_cm/service_bed.h"

namespace uroce::nic::rdma_cm {
namespace {

/// Two programs of the first host, and a program on the second host.
class LoopbackTest : public testing::Test {
 protected:
  static EndpointId Listen(const Program& program, const Gid& address,
                           wire::PortSpace space = wire::PortSpace::kTcp,
                           ibv_qp_type type = IBV_QPT_RC) {
    const EndpointId listener = program.Create(space, type);
    EXPECT_EQ(program.client->Bind(listener, {.address = address, .port = kPort}), Result::kOk);
    EXPECT_EQ(program.client->Listen(listener, 16), Result::kOk);
    return listener;
  }
  static Result Resolve(const Program& program, EndpointId id, const Gid& to) {
    return program.client->ResolveAddress(id, nullptr, {.address = to, .port = kPort}, kMs * 1000);
  }
  static EndpointInfo Query(const Program& program, EndpointId id) {
    EndpointInfo info;
    EXPECT_EQ(program.client->Query(id, info), Result::kOk);
    return info;
  }
  EndpointId ConnectTo(Program& program, const Gid& to,
                       wire::PortSpace space = wire::PortSpace::kTcp,
                       ibv_qp_type type = IBV_QPT_RC) {
    const EndpointId id = program.Create(space, type);
    EXPECT_EQ(Resolve(program, id, to), Result::kOk);
    net.Run();
    program.Take(EventKind::kAddressResolved);
    EXPECT_EQ(program.client->ResolveRoute(id), Result::kOk);
    program.Take(EventKind::kRouteResolved);
    EXPECT_EQ(program.client->Connect(id, WithQpn(++last_qpn)), Result::kOk);
    net.Run();
    return id;
  }

  Network net;
  Program server{net[0]};
  Program client{net[0]};
  Program remote{net[1]};
  uint32_t last_qpn = 0x100;
};

TEST_F(LoopbackTest, ItIsBoundWithoutADevice) {
  for (const Gid& address : {kLoopback, kLoopback6}) {
    const EndpointId id = server.Create();
    ASSERT_EQ(server.client->Bind(id, {.address = address}), Result::kOk);
    const EndpointInfo info = Query(server, id);
    EXPECT_EQ(info.device, std::nullopt);
    EXPECT_EQ(info.local.address, address);
    EXPECT_NE(info.local.port, 0);
    EXPECT_EQ(info.state, State::kAddressBound);
    QueuePairAttributes attributes;
    EXPECT_EQ(server.client->InitQueuePair(id, IBV_QPS_INIT, attributes), Result::kWrongState);
  }
}

TEST_F(LoopbackTest, ItReachesTheListenerOnThisHost) {
  for (const Gid& at : {kLoopback, Ip(1), AnyIp(), Gid()}) {
    for (const Gid& to : {kLoopback, AnyIp()}) {
      const EndpointId listener = Listen(server, at);
      ConnectTo(client, to);
      EXPECT_EQ(server.Take(EventKind::kConnectRequest).listener, listener);
      ASSERT_EQ(server.client->Destroy(listener), Result::kOk);
      net.Run();
      client.Take(EventKind::kRejected);
    }
  }
}

TEST_F(LoopbackTest, ItsIpv6ReachesTheListenerAtIpv6) {
  for (const Gid& at : {kLoopback6, Ip6(1), Gid()}) {
    const EndpointId listener = Listen(server, at);
    ConnectTo(client, kLoopback6);
    EXPECT_EQ(server.Take(EventKind::kConnectRequest).listener, listener);
    ASSERT_EQ(server.client->Destroy(listener), Result::kOk);
    net.Run();
    client.Take(EventKind::kRejected);
  }
}

TEST_F(LoopbackTest, WhoListensThereIsReachedAtTheAddressesOfDevicesToo) {
  Listen(server, kLoopback);
  ConnectTo(client, Ip(1));
  server.Take(EventKind::kConnectRequest);
}

TEST_F(LoopbackTest, WhoListensThereIsNotReachedFromOtherHosts) {
  Listen(server, kLoopback);
  ConnectTo(remote, Ip(1));
  EXPECT_EQ(remote.Take(EventKind::kRejected).status, 28);
  EXPECT_TRUE(server.events.empty());
}

TEST_F(LoopbackTest, ServicesOfDatagramsAreReachedAndHiddenLikewise) {
  Listen(server, kLoopback, wire::PortSpace::kUdp, IBV_QPT_UD);
  ConnectTo(client, kLoopback, wire::PortSpace::kUdp, IBV_QPT_UD);
  server.Take(EventKind::kConnectRequest);
  ConnectTo(remote, Ip(1), wire::PortSpace::kUdp, IBV_QPT_UD);
  remote.Take(EventKind::kUnreachable);
  EXPECT_TRUE(server.events.empty());
}

TEST_F(LoopbackTest, BothEndsHaveTheAddressesOfDevicesOnceTheyAreKnown) {
  Listen(server, kLoopback);
  const EndpointId active = ConnectTo(client, kLoopback);
  EXPECT_EQ(Query(client, active).local.address, Ip(1));
  EXPECT_EQ(Query(client, active).remote.address, Ip(1));
  EXPECT_EQ(Query(client, active).remote.port, kPort);
  EXPECT_EQ(Query(client, active).device, 0u);
  const EndpointId passive = server.Take(EventKind::kConnectRequest).id;
  EXPECT_EQ(Query(server, passive).local.address, Ip(1));
  EXPECT_EQ(Query(server, passive).device, 0u);
}

TEST_F(LoopbackTest, WithoutAListenerItIsRefusedAsAnywhere) {
  ConnectTo(client, kLoopback);
  EXPECT_EQ(client.Take(EventKind::kRejected).status, 8);
}

TEST_F(LoopbackTest, FromThereNoOtherHostIsReached) {
  const auto bound = [this] {
    const EndpointId id = client.Create();
    EXPECT_EQ(client.client->Bind(id, {.address = kLoopback}), Result::kOk);
    return id;
  };
  EXPECT_EQ(Resolve(client, bound(), Ip(2)), Result::kInvalid);
  EXPECT_EQ(Resolve(client, bound(), Ip(1)), Result::kOk);
  EXPECT_EQ(Resolve(client, bound(), kLoopback), Result::kOk);
  EXPECT_EQ(Resolve(client, bound(), kLoopback6), Result::kInvalid) << "of another family";
}

TEST_F(LoopbackTest, AnEndpointOfADeviceReachesItsOwnAddress) {
  const EndpointId id = client.Create();
  ASSERT_EQ(client.client->Bind(id, {.address = Ip(1)}), Result::kOk);
  ASSERT_EQ(Resolve(client, id, kLoopback), Result::kOk);
  net.Run();
  client.Take(EventKind::kAddressResolved);
  EXPECT_EQ(Query(client, id).remote.address, Ip(1));
}

TEST_F(LoopbackTest, AHostWithoutAddressesHasNoDeviceForIt) {
  net[0].has_addresses = false;
  const EndpointId id = client.Create();
  ASSERT_EQ(Resolve(client, id, kLoopback), Result::kOk);
  EXPECT_EQ(client.Take(EventKind::kAddressError).status, -ENODEV);
  EXPECT_EQ(Query(client, id).remote.address, Gid());
}

}  // namespace
}  // namespace uroce::nic::rdma_cm
