// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <string_view>

#include "tests/nic/rdma_cm/service_bed.h"

namespace uroce::nic::rdma_cm {
namespace {

PrivateData Text(std::string_view text) {
  return PrivateData(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}
std::string_view TextOf(const PrivateData& data) {
  return reinterpret_cast<const char*>(data.bytes.data());
}

using ConnectionsTest = RdmaCmTest;

TEST_F(ConnectionsTest, ARequestReachesTheListenerWithTheRolesSwapped) {
  const EndpointId listener = Listen();
  const EndpointId active = Resolved();
  ConnectionParameters parameters = WithQpn(0x123);
  parameters.private_data = Text("hello");
  ASSERT_EQ(client.client->Connect(active, parameters), Result::kOk);
  net.Run();
  const Event request = server.Take(EventKind::kConnectRequest);
  EXPECT_EQ(request.listener, listener);
  EXPECT_EQ(request.connection.qpn, Qpn(0x123));
  EXPECT_EQ(request.connection.responder_resources, 2) << "the other's initiator depth";
  EXPECT_EQ(request.connection.initiator_depth, 4);
  EXPECT_EQ(request.private_data.size, cm::kConnectPrivateBytes);
  EXPECT_EQ(TextOf(request.private_data), "hello");
  EndpointInfo info;
  ASSERT_EQ(server.client->Query(request.id, info), Result::kOk);
  EXPECT_EQ(info.local.address, Ip(2));
  EXPECT_EQ(info.local.port, kPort);
  EXPECT_EQ(info.remote.address, Ip(1));
  EXPECT_EQ(info.device, 0u);
  EXPECT_EQ(info.connection, cm::State::kReqReceived);
}

TEST_F(ConnectionsTest, BothSidesLearnOfTheConnectionAndOfItsEndOnce) {
  Listen();
  const Pair pair = Connected();
  ASSERT_EQ(client.client->Disconnect(pair.active), Result::kOk);
  net.Run();
  EXPECT_EQ(server.Take(EventKind::kDisconnected).id, pair.passive);
  ASSERT_EQ(server.client->Disconnect(pair.passive), Result::kOk);
  net.Run();
  EXPECT_EQ(client.Take(EventKind::kDisconnected).id, pair.active);
  net.Run(kMs * 60'000);
  client.Take(EventKind::kTimewaitExit);
  server.Take(EventKind::kTimewaitExit);
  EXPECT_TRUE(client.events.empty());
  EXPECT_TRUE(server.events.empty());
  EXPECT_EQ(server.client->Disconnect(pair.passive), Result::kOk) << "too late, and no error";
}

TEST_F(ConnectionsTest, ARefusalCarriesItsReasonAndData) {
  Listen();
  const Pair pair = Request();
  const PrivateData why = Text("busy");
  EXPECT_EQ(server.client->Reject(pair.passive, 5, why.span()), Result::kInvalid);
  ASSERT_EQ(server.client->Reject(pair.passive, 0, why.span()), Result::kOk);
  net.Run();
  const Event rejected = client.Take(EventKind::kRejected);
  EXPECT_EQ(rejected.status, 28);
  EXPECT_EQ(TextOf(rejected.private_data), "busy");
  EXPECT_EQ(rejected.private_data.size, cm::kRejectPrivateBytes);
}

TEST_F(ConnectionsTest, WithoutAListenerTheReasonIsInvalidServiceId) {
  const EndpointId active = Resolved();
  ASSERT_EQ(client.client->Connect(active, WithQpn(1)), Result::kOk);
  net.Run();
  EXPECT_EQ(client.Take(EventKind::kRejected).status, 8);
}

TEST_F(ConnectionsTest, AListenerOfAnotherTransportRefuses) {
  Listen(wire::PortSpace::kTcp, IBV_QPT_UC);
  const EndpointId active = Resolved();
  ASSERT_EQ(client.client->Connect(active, WithQpn(1)), Result::kOk);
  net.Run();
  EXPECT_EQ(client.Take(EventKind::kRejected).status, 28);
  EXPECT_TRUE(server.events.empty());
}

TEST_F(ConnectionsTest, APeerThatIsSilentIsUnreachableAfterAllRepeats) {
  const EndpointId active = Resolved();
  net.deaf = {2};
  ASSERT_EQ(client.client->Connect(active, WithQpn(1)), Result::kOk);
  net.Run(kMs * 200'000);
  EXPECT_EQ(client.Take(EventKind::kUnreachable).status, -ETIMEDOUT);
  EXPECT_EQ(std::ranges::count(net.sent, wire::CmAttribute::kReq), 16);
}

TEST_F(ConnectionsTest, RequestsBeyondTheBacklogAreRejectedUntilThereIsRoom) {
  const EndpointId listener = server.Create();
  ASSERT_EQ(server.client->Bind(listener, {.address = Ip(2), .port = kPort}), Result::kOk);
  ASSERT_EQ(server.client->Listen(listener, 1), Result::kOk);
  ASSERT_EQ(client.client->Connect(Resolved(), WithQpn(1)), Result::kOk);
  ASSERT_EQ(client.client->Connect(Resolved(), WithQpn(2)), Result::kOk);
  net.Run();
  const EndpointId first = server.Take(EventKind::kConnectRequest).id;
  EXPECT_TRUE(server.events.empty());
  EXPECT_EQ(client.Take(EventKind::kRejected).status, 28);
  ASSERT_EQ(server.client->TakeRequest(first), Result::kOk);
  EXPECT_EQ(server.client->TakeRequest(first), Result::kWrongState) << "once";
  ASSERT_EQ(client.client->Connect(Resolved(), WithQpn(3)), Result::kOk);
  net.Run();
  EXPECT_TRUE(server.Find(EventKind::kConnectRequest));
}

TEST_F(ConnectionsTest, RequestsThatWereNotShownGoWithTheirListener) {
  const EndpointId listener = Listen();
  const Pair shown = Request();
  ASSERT_EQ(client.client->Connect(Resolved(), WithQpn(++last_qpn)), Result::kOk);
  net.Run();
  const EndpointId hidden = server.Take(EventKind::kConnectRequest).id;
  ASSERT_EQ(server.client->Destroy(listener), Result::kOk);
  net.Run();
  EXPECT_EQ(server.client->Destroy(hidden), Result::kNoSuchId);
  EXPECT_EQ(client.Take(EventKind::kRejected).status, 28);
  EXPECT_EQ(server.client->Accept(shown.passive, WithQpn(7)), Result::kOk);
}

TEST_F(ConnectionsTest, OfAnotherProgramNothingIsFound) {
  Listen();
  const Pair pair = Request();
  const Program other(net[1]);
  EXPECT_EQ(other.client->Accept(pair.passive, WithQpn(1)), Result::kNoSuchId);
  EXPECT_EQ(other.client->Destroy(pair.passive), Result::kNoSuchId);
}

TEST_F(ConnectionsTest, CallsInTheWrongStateChangeNothing) {
  const EndpointId id = client.Create();
  EXPECT_EQ(client.client->ResolveRoute(id), Result::kWrongState);
  EXPECT_EQ(client.client->Connect(id, WithQpn(1)), Result::kWrongState);
  EXPECT_EQ(client.client->Accept(id, WithQpn(1)), Result::kWrongState);
  EXPECT_EQ(client.client->Reject(id, 0, {}), Result::kWrongState);
  EXPECT_EQ(client.client->Establish(id), Result::kNoSuchId);
  EXPECT_EQ(client.client->Disconnect(id), Result::kWrongState);
  EXPECT_EQ(client.client->TakeRequest(id), Result::kWrongState);
  const EndpointId resolved = Resolved();
  ConnectionParameters parameters = WithQpn(1);
  parameters.private_data = PrivateData(std::array<uint8_t, 57>{});
  EXPECT_EQ(client.client->Connect(resolved, parameters), Result::kTooLong);
  parameters.private_data = PrivateData(std::array<uint8_t, 56>{});
  EXPECT_EQ(client.client->Connect(resolved, parameters), Result::kOk);
}

TEST_F(ConnectionsTest, TheFirstPacketIsAsGoodAsAnRtu) {
  Listen();
  const Pair pair = Request();
  ASSERT_EQ(server.client->Accept(pair.passive, WithQpn(9)), Result::kOk);
  ASSERT_EQ(server.client->NotifyEstablished(pair.passive), Result::kOk);
  EXPECT_EQ(server.Take(EventKind::kEstablished).id, pair.passive);
}

TEST_F(ConnectionsTest, AServiceOfDatagramsAnswersWithItsQueuePair) {
  Listen(wire::PortSpace::kUdp, IBV_QPT_UD);
  const EndpointId active = Resolved(wire::PortSpace::kUdp, IBV_QPT_UD);
  ASSERT_EQ(client.client->Connect(active, WithQpn(5)), Result::kOk);
  net.Run();
  const Event request = server.Take(EventKind::kConnectRequest);
  EXPECT_TRUE(request.is_datagram);
  EXPECT_EQ(request.private_data.size, cm::kResolvePrivateBytes);
  ASSERT_EQ(server.client->Accept(request.id, WithQpn(0x55)), Result::kOk);
  net.Run();
  const Event answer = client.Take(EventKind::kEstablished);
  EXPECT_TRUE(answer.is_datagram);
  EXPECT_EQ(answer.datagram.qpn, Qpn(0x55));
  EXPECT_EQ(answer.datagram.qkey, 0x01234567u);
  EXPECT_EQ(answer.datagram.address.grh.dgid.raw[15], 2);
  EXPECT_EQ(answer.datagram.address.is_global, 1);
}

TEST_F(ConnectionsTest, ADatagramServiceThatRefusesIsUnreachableWithItsStatus) {
  Listen(wire::PortSpace::kUdp, IBV_QPT_UD);
  const EndpointId active = Resolved(wire::PortSpace::kUdp, IBV_QPT_UD);
  ASSERT_EQ(client.client->Connect(active, WithQpn(5)), Result::kOk);
  net.Run();
  ASSERT_EQ(server.client->Reject(server.Take(EventKind::kConnectRequest).id, 0, {}), Result::kOk);
  net.Run();
  EXPECT_EQ(client.Take(EventKind::kUnreachable).status, 2);
}

TEST_F(ConnectionsTest, LimitsOfAProgramAndOfAUserHold) {
  ServiceConfig config;
  config.limits.endpoints_per_program = 2;
  config.limits.endpoints_per_user = 3;
  Network small(config);
  const Program first(small[0], {.uid = 7});
  const Program second(small[0], {.uid = 7});
  const Program other(small[0], {.uid = 8});
  EndpointId id{};
  first.Create();
  const EndpointId last = first.Create();
  EXPECT_EQ(first.client->Create(wire::PortSpace::kTcp, IBV_QPT_RC, id), Result::kNoRoom);
  second.Create();
  EXPECT_EQ(second.client->Create(wire::PortSpace::kTcp, IBV_QPT_RC, id), Result::kNoRoom);
  other.Create();
  ASSERT_EQ(first.client->Destroy(last), Result::kOk);
  second.Create();
  EXPECT_EQ(first.client->Create(wire::PortSpace::kTcp, IBV_QPT_RC, id), Result::kNoRoom)
      << "the user has three again";
}

TEST_F(ConnectionsTest, AQueuePairOfAnotherProgramIsNotNamedToPeers) {
  Listen();
  const EndpointId active = Resolved();
  net.sent.clear();
  EXPECT_EQ(client.client->Connect(active, WithQpn(0xbad)), Result::kInvalid);
  net.Run();
  EXPECT_TRUE(net.sent.empty());
  ASSERT_EQ(client.client->Connect(active, WithQpn(5)), Result::kOk);
  net.Run();
  const EndpointId passive = server.Take(EventKind::kConnectRequest).id;
  EXPECT_EQ(server.client->Accept(passive, WithQpn(0xbad)), Result::kInvalid);
  EXPECT_EQ(server.client->Accept(passive, WithQpn(6)), Result::kOk);
  net.Run();
  client.Take(EventKind::kConnectResponse);
}

TEST_F(ConnectionsTest, ADatagramServiceNamesItsProgramsQueuePairs) {
  Listen(wire::PortSpace::kUdp, IBV_QPT_UD);
  const EndpointId active = Resolved(wire::PortSpace::kUdp, IBV_QPT_UD);
  EXPECT_EQ(client.client->Connect(active, WithQpn(0xbad)), Result::kOk) << "it is not said";
  net.Run();
  const EndpointId passive = server.Take(EventKind::kConnectRequest).id;
  EXPECT_EQ(server.client->Accept(passive, WithQpn(0xbad)), Result::kInvalid);
  EXPECT_EQ(server.client->Accept(passive, WithQpn(6)), Result::kOk);
}

/// Has a program connect to another one that listens; both destroy their ids then.
void ConnectAndLeave(Network& network, const Program& from, Program& to, uint32_t number) {
  const EndpointId id = from.Create();
  ASSERT_EQ(from.client->ResolveAddress(id, nullptr, {.address = Ip(2), .port = kPort}, kMs),
            Result::kOk);
  network.Run();
  ASSERT_EQ(from.client->ResolveRoute(id), Result::kOk);
  ASSERT_EQ(from.client->Connect(id, WithQpn(5 + number)), Result::kOk);
  network.Run();
  const EndpointId passive = to.Take(EventKind::kConnectRequest).id;
  ASSERT_EQ(to.client->Accept(passive, WithQpn(15 + number)), Result::kOk);
  network.Run();
  ASSERT_EQ(from.client->Establish(id), Result::kOk);
  ASSERT_EQ(from.client->Destroy(id), Result::kOk);
  network.Run();
  to.events.clear();
  ASSERT_EQ(to.client->Destroy(passive), Result::kOk);
  network.Run(kMs * 10);
}

TEST_F(ConnectionsTest, WhatIsLeftOfConnectionsGivesWayToTheirProgramAndUser) {
  ServiceConfig config;
  config.limits.endpoints_per_program = 3;
  config.limits.endpoints_per_user = 4;
  Network small(config);
  const Program from(small[0], {.uid = 7});
  Program to(small[1], {.uid = 8});
  EndpointId id = to.Create();
  ASSERT_EQ(to.client->Bind(id, {.address = AnyIp(), .port = kPort}), Result::kOk);
  ASSERT_EQ(to.client->Listen(id, 16), Result::kOk);
  for (uint32_t i = 0; i < 2; ++i) ASSERT_NO_FATAL_FAILURE(ConnectAndLeave(small, from, to, i));
  ASSERT_EQ(small[0].service->communications(), 2u) << "two are in time wait";
  from.Create();
  EXPECT_EQ(small[0].service->communications(), 2u) << "there is room for one beside them";
  from.Create();
  EXPECT_EQ(small[0].service->communications(), 1u);
  const Program next(small[0], {.uid = 7});
  next.Create();
  EXPECT_EQ(small[0].service->communications(), 1u) << "the user may have four";
  next.Create();
  EXPECT_EQ(small[0].service->communications(), 0u) << "that of the other program gives way too";
  EXPECT_EQ(next.client->Create(wire::PortSpace::kTcp, IBV_QPT_RC, id), Result::kNoRoom)
      << "ids that programs have do not";
}

TEST_F(ConnectionsTest, WhatIsLeftOfConnectionsGivesWayToRequests) {
  ServiceConfig config;
  config.limits.endpoints_per_program = 2;
  Network small(config);
  const Program from(small[0], {.uid = 7});
  Program to(small[1], {.uid = 8});
  const EndpointId listener = to.Create();
  ASSERT_EQ(to.client->Bind(listener, {.address = AnyIp(), .port = kPort}), Result::kOk);
  ASSERT_EQ(to.client->Listen(listener, 16), Result::kOk);
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_NO_FATAL_FAILURE(ConnectAndLeave(small, from, to, i));
    EXPECT_EQ(small[1].service->communications(), 1u) << "the last one's time wait";
  }
}

// ReDMArk V6: a PSN that is always the same, or follows from others, need not be guessed.
TEST_F(ConnectionsTest, StartingPsnsAreRandomAndOfOneConnectionEach) {
  Listen();
  std::set<uint32_t> psns;
  std::set<uint32_t> steps;
  uint32_t last = 0;
  for (int i = 0; i < 50; ++i) {
    const Pair pair = Connected();
    for (const auto& [program, id] : {std::pair(&client, pair.active), {&server, pair.passive}}) {
      QueuePairAttributes attributes;
      ASSERT_EQ(program->client->InitQueuePair(id, IBV_QPS_RTR, attributes), Result::kOk);
      EXPECT_TRUE(psns.insert(attributes.attr.rq_psn).second);
      steps.insert((attributes.attr.rq_psn - last) & 0xffffff);
      last = attributes.attr.rq_psn;
    }
  }
  EXPECT_EQ(steps.size(), 100u);
}

TEST_F(ConnectionsTest, WhatThereIsNoRoomForIsSentALittleLater) {
  Listen();
  const EndpointId active = Resolved();
  net[0].has_room = false;
  ASSERT_EQ(client.client->Connect(active, WithQpn(5)), Result::kOk);
  net.Run(kMs * 2);
  EXPECT_TRUE(server.events.empty());
  net[0].has_room = true;
  net.Run(kMs * 2);
  server.Take(EventKind::kConnectRequest);
}

TEST_F(ConnectionsTest, ADeviceThatSendsNothingHoldsUpNoOther) {
  net[0].ipv6_device = 1;
  net[0].full_device = 0;
  for (int i = 0; i < 3; ++i) {
    const EndpointId stuck = Resolved();
    ASSERT_EQ(client.client->Connect(stuck, WithQpn(5 + i)), Result::kOk);
  }
  const EndpointId id = client.Create();
  const SocketAddress to{.address = Ip6(2), .port = kPort};
  ASSERT_EQ(client.client->ResolveAddress(id, nullptr, to, kMs * 1000), Result::kOk);
  net.Run();
  ASSERT_EQ(client.client->ResolveRoute(id), Result::kOk);
  ASSERT_EQ(client.client->Connect(id, WithQpn(9)), Result::kOk);
  net.Run();
  EXPECT_EQ(client.Find(EventKind::kRejected).value().id, id) << "no program listens there";
  EXPECT_TRUE(net[0].service->has_farewells());
  net[0].full_device.reset();
  net.Run(kMs * 2);
  EXPECT_EQ(std::ranges::count(client.events, EventKind::kRejected, &Event::kind), 4);
}

TEST_F(ConnectionsTest, UnsupportedKindsAreRefused) {
  EndpointId id{};
  EXPECT_EQ(client.client->Create(wire::PortSpace::kIpoib, IBV_QPT_UD, id), Result::kNotSupported);
  EXPECT_EQ(client.client->Create(wire::PortSpace::kTcp, IBV_QPT_RAW_PACKET, id),
            Result::kNotSupported);
}

class QueuePairAttributesTest : public RdmaCmTest {
 protected:
  static QueuePairAttributes Get(const Program& program, EndpointId id, ibv_qp_state state) {
    QueuePairAttributes attributes;
    EXPECT_EQ(program.client->InitQueuePair(id, state, attributes), Result::kOk);
    EXPECT_EQ(attributes.attr.qp_state, state);
    return attributes;
  }
};

TEST_F(QueuePairAttributesTest, InitGivesNoRightsBeforeThePeerIsKnown) {
  const EndpointId active = Resolved();
  const QueuePairAttributes init = Get(client, active, IBV_QPS_INIT);
  EXPECT_EQ(init.mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  EXPECT_EQ(init.attr.qp_access_flags, 0u);
  EXPECT_EQ(init.attr.port_num, 1);
  QueuePairAttributes none;
  EXPECT_EQ(client.client->InitQueuePair(active, IBV_QPS_RTR, none), Result::kWrongState);
}

TEST_F(QueuePairAttributesTest, BothSidesAgreeCrosswise) {
  Listen();
  const Pair pair = Request();
  const QueuePairAttributes server_rtr = Get(server, pair.passive, IBV_QPS_RTR);
  EXPECT_EQ(server_rtr.attr.dest_qp_num, last_qpn);
  EXPECT_EQ(server_rtr.attr.path_mtu, IBV_MTU_4096);
  EXPECT_EQ(server_rtr.attr.ah_attr.grh.sgid_index, 3);
  EXPECT_EQ(server_rtr.attr.ah_attr.grh.dgid.raw[15], 1);
  EXPECT_EQ(server_rtr.mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  EXPECT_EQ(Get(server, pair.passive, IBV_QPS_INIT).attr.qp_access_flags,
            unsigned{IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC});
  ASSERT_EQ(server.client->Accept(pair.passive, WithQpn(0x999)), Result::kOk);
  net.Run();
  const QueuePairAttributes client_rtr = Get(client, pair.active, IBV_QPS_RTR);
  EXPECT_EQ(client_rtr.attr.dest_qp_num, 0x999u);
  const QueuePairAttributes client_rts = Get(client, pair.active, IBV_QPS_RTS);
  const QueuePairAttributes server_rts = Get(server, pair.passive, IBV_QPS_RTS);
  EXPECT_EQ(client_rts.attr.sq_psn, server_rtr.attr.rq_psn);
  EXPECT_EQ(server_rts.attr.sq_psn, client_rtr.attr.rq_psn);
  EXPECT_EQ(client_rts.mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  EXPECT_EQ(client_rts.attr.timeout, 19);
  EXPECT_EQ(client_rts.attr.retry_cnt, 7);
  EXPECT_EQ(client_rts.attr.max_rd_atomic, 4) << "what the other serves";
}

TEST_F(QueuePairAttributesTest, AnAckTimeoutThatIsSetIsTakenAsItIs) {
  Listen();
  const Pair pair = Request();
  ASSERT_EQ(server.client->SetAckTimeout(pair.passive, 0), Result::kOk);
  EXPECT_EQ(Get(server, pair.passive, IBV_QPS_RTS).attr.timeout, 0);
}

TEST_F(QueuePairAttributesTest, DatagramsHaveTheQkeyOfRdmaCmAndNoPeer) {
  const EndpointId id = Resolved(wire::PortSpace::kUdp, IBV_QPT_UD);
  const QueuePairAttributes init = Get(client, id, IBV_QPS_INIT);
  EXPECT_EQ(init.mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  EXPECT_EQ(init.attr.qkey, 0x01234567u);
  EXPECT_EQ(Get(client, id, IBV_QPS_RTR).mask, IBV_QP_STATE);
  EXPECT_EQ(Get(client, id, IBV_QPS_RTS).mask, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

}  // namespace
}  // namespace uroce::nic::rdma_cm
