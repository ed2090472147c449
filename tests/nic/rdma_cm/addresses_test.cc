// SPDX-License-Identifier: Apache-2.0
#include <cerrno>

#include "tests/nic/rdma_cm/service_bed.h"

namespace uroce::nic::rdma_cm {
namespace {

constexpr Nanos kTimeout = kMs * 2000;

class AddressesTest : public RdmaCmTest {
 protected:
  Result Resolve(EndpointId id, const Gid& to) {
    return client.client->ResolveAddress(id, nullptr, {.address = to, .port = kPort}, kTimeout);
  }
  EndpointInfo Query(EndpointId id) const {
    EndpointInfo info;
    EXPECT_EQ(client.client->Query(id, info), Result::kOk);
    return info;
  }
};

TEST_F(AddressesTest, ResolvingBindsToTheSourceOfTheRouteAndToAFreePort) {
  const EndpointId id = client.Create();
  ASSERT_EQ(Resolve(id, Ip(2)), Result::kOk);
  EXPECT_EQ(Query(id).device, std::nullopt);
  EXPECT_TRUE(client.events.empty()) << "never before the call has returned";
  net.Run();
  client.Take(EventKind::kAddressResolved);
  EXPECT_EQ(Query(id).local.address, Ip(1));
  EXPECT_GE(Query(id).local.port, 32768);
  EXPECT_EQ(Query(id).device, 0u);
  EXPECT_EQ(Query(id).remote.address, Ip(2));
}

TEST_F(AddressesTest, ANeighbourThatDoesNotAnswerIsAnErrorAfterTheCallersTime) {
  const EndpointId id = client.Create();
  ASSERT_EQ(Resolve(id, Ip(150)), Result::kOk);
  net.Run(kTimeout - kMs);
  EXPECT_TRUE(client.events.empty());
  net.Run(kMs);
  EXPECT_EQ(client.Take(EventKind::kAddressError).status, -ETIMEDOUT);
  EXPECT_EQ(Resolve(id, Ip(2)), Result::kOk) << "another may be tried";
}

TEST_F(AddressesTest, AWayByAnotherInterfaceIsAnEventAndNoWayAnErrnoAsOnLinux) {
  const EndpointId id = client.Create();
  ASSERT_EQ(Resolve(id, Ip(200)), Result::kOk);
  EXPECT_EQ(client.Take(EventKind::kAddressError).status, -ENODEV);
  EXPECT_EQ(Resolve(id, Ip(201)), Result::kNoRoute);
  EXPECT_EQ(ErrnoOf(Result::kNoRoute), ENETUNREACH);
}

TEST_F(AddressesTest, AnEndpointThatIsDestroyedMeanwhileHearsNothing) {
  const EndpointId id = client.Create();
  ASSERT_EQ(Resolve(id, Ip(2)), Result::kOk);
  ASSERT_EQ(client.client->Destroy(id), Result::kOk);
  net.Run();
  EXPECT_TRUE(client.events.empty());
  EXPECT_EQ(client.client->Destroy(id), Result::kNoSuchId);
}

TEST_F(AddressesTest, OnlyAddressesOfDevicesCanBeBound) {
  const EndpointId id = client.Create();
  EXPECT_EQ(client.client->Bind(id, {.address = Ip(9)}), Result::kAddressNotAvailable);
  EXPECT_EQ(client.client->Bind(id, {.address = Ip6(1)}), Result::kOk);
  EXPECT_EQ(client.client->Bind(id, {.address = Ip(1)}), Result::kWrongState);
  EXPECT_EQ(Resolve(id, Ip(2)), Result::kInvalid) << "of another family";
  EXPECT_EQ(Resolve(id, Ip6(2)), Result::kOk);
}

TEST_F(AddressesTest, APortIsOneEndpointsUnlessBothReuseIt) {
  const SocketAddress address{.address = Ip(1), .port = kPort};
  const EndpointId first = client.Create();
  const EndpointId second = client.Create();
  ASSERT_EQ(client.client->SetReuseAddress(first, true), Result::kOk);
  ASSERT_EQ(client.client->Bind(first, address), Result::kOk);
  EXPECT_EQ(client.client->Bind(second, address), Result::kAddressInUse);
  ASSERT_EQ(client.client->SetReuseAddress(second, true), Result::kOk);
  EXPECT_EQ(client.client->Bind(second, address), Result::kOk);
  const EndpointId other = client.Create(wire::PortSpace::kUdp, IBV_QPT_UD);
  EXPECT_EQ(client.client->Bind(other, address), Result::kOk) << "of another port space";
}

TEST_F(AddressesTest, LowPortsAreForThePrivileged) {
  const SocketAddress address{.address = AnyIp(), .port = 1023};
  EXPECT_EQ(client.client->Bind(client.Create(), address), Result::kNotPermitted);
  const Program root(net[0], {.is_privileged = true});
  EXPECT_EQ(root.client->Bind(root.Create(), address), Result::kOk);
}

TEST_F(AddressesTest, ADestroyedEndpointsPortIsFree) {
  const SocketAddress address{.address = Ip(1), .port = kPort};
  const EndpointId first = client.Create();
  ASSERT_EQ(client.client->Bind(first, address), Result::kOk);
  ASSERT_EQ(client.client->Destroy(first), Result::kOk);
  EXPECT_EQ(client.client->Bind(client.Create(), address), Result::kOk);
}

TEST_F(AddressesTest, ThePathHasTheOptionsOfTheEndpointAndTheMtuOfTheDevice) {
  const EndpointId id = client.Create();
  ASSERT_EQ(client.client->SetTypeOfService(id, 0x68), Result::kOk);
  ASSERT_EQ(client.client->SetAckTimeout(id, 14), Result::kOk);
  EXPECT_EQ(client.client->SetAckTimeout(id, 32), Result::kInvalid);
  ASSERT_EQ(Resolve(id, Ip(2)), Result::kOk);
  net.Run();
  std::optional<PathRecord> path;
  ASSERT_EQ(client.client->QueryPath(id, path), Result::kOk);
  EXPECT_FALSE(path) << "before the route is resolved";
  ASSERT_EQ(client.client->ResolveRoute(id), Result::kOk);
  ASSERT_EQ(client.client->QueryPath(id, path), Result::kOk);
  ASSERT_TRUE(path);
  EXPECT_EQ(path->traffic_class, 0x68);
  EXPECT_EQ(path->packet_life_time, 13) << "one less than the ACK timeout";
  EXPECT_EQ(path->mtu, 5);
  EXPECT_EQ(path->hop_limit, 64);
  EXPECT_EQ(path->flow_label, (Query(id).local.port * 31u + kPort) & 0xfffff);
}

TEST_F(AddressesTest, GroupsAreJoinedByTheDeviceAndLeftWithTheEndpoint) {
  const EndpointId id = client.Create(wire::PortSpace::kUdp, IBV_QPT_UD);
  MembershipId first{};
  MembershipId second{};
  const Gid group{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 1, 1}};
  EXPECT_EQ(client.client->JoinMulticast(id, {.address = group}, false, first),
            Result::kWrongState);
  ASSERT_EQ(client.client->Bind(id, {.address = Ip(1)}), Result::kOk);
  ASSERT_EQ(client.client->JoinMulticast(id, {.address = group}, false, first), Result::kOk);
  const Event joined = client.Take(EventKind::kMulticastJoin);
  EXPECT_EQ(joined.membership, first);
  EXPECT_EQ(joined.datagram.qpn, Qpn(0xffffff));
  EXPECT_EQ(joined.datagram.qkey, 0x01234567u);
  EXPECT_EQ(joined.datagram.address.grh.dgid.raw[12], 239);
  EXPECT_EQ(joined.datagram.address.grh.sgid_index, 3);
  ASSERT_EQ(client.client->JoinMulticast(id, {.address = group}, true, second), Result::kOk);
  EXPECT_EQ(net[0].groups.size(), 1u) << "who sends alone is no member";
  EXPECT_EQ(client.client->LeaveMulticast(id, second), Result::kOk);
  EXPECT_EQ(client.client->LeaveMulticast(id, second), Result::kNoSuchId);
  EXPECT_EQ(net[0].groups.size(), 1u);
  ASSERT_EQ(client.client->Destroy(id), Result::kOk);
  EXPECT_TRUE(net[0].groups.empty());
}

TEST_F(AddressesTest, JoinsCountForAProgramAndAUser) {
  ServiceConfig config;
  config.limits.joins_per_program = 2;
  config.limits.joins_per_user = 3;
  Network small(config);
  const auto joins = [](Program& program) {
    const EndpointId id = program.Create(wire::PortSpace::kUdp, IBV_QPT_UD);
    EXPECT_EQ(program.client->Bind(id, {.address = Ip(1)}), Result::kOk);
    uint8_t joined = 0;
    MembershipId membership{};
    SocketAddress group{.address = Ip(0)};
    group.address.bytes[12] = 239;
    do {
      group.address.bytes[15] = ++joined;
    } while (program.client->JoinMulticast(id, group, joined == 2, membership) == Result::kOk &&
             joined < 10);
    return std::pair(id, joined - 1);
  };
  Program first(small[0], {.uid = 7});
  Program second(small[0], {.uid = 7});
  Program other(small[0], {.uid = 8});
  const auto [id, of_first] = joins(first);
  EXPECT_EQ(of_first, 2) << "one that only sends counts too";
  EXPECT_EQ(joins(second).second, 1);
  EXPECT_EQ(joins(other).second, 2);
  ASSERT_EQ(first.client->Destroy(id), Result::kOk);
  EXPECT_EQ(joins(second).second, 1);
  EXPECT_EQ(joins(first).second, 1);
}

TEST_F(AddressesTest, AGroupThatCannotBeJoinedIsAnEvent) {
  net[0].join_result = Result::kNotSupported;
  const EndpointId id = client.Create(wire::PortSpace::kUdp, IBV_QPT_UD);
  ASSERT_EQ(client.client->Bind(id, {.address = Ip(1)}), Result::kOk);
  MembershipId membership{};
  ASSERT_EQ(client.client->JoinMulticast(id, {.address = Ip(9)}, false, membership), Result::kOk);
  EXPECT_EQ(client.Take(EventKind::kMulticastError).status, -EOPNOTSUPP);
}

}  // namespace
}  // namespace uroce::nic::rdma_cm
