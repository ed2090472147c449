// SPDX-License-Identifier: Apache-2.0
// What commands must be like, and what queries answer.
#include <algorithm>

#include "tests/nic/ucma/ucma_bed.h"

namespace uroce::nic::ucma {
namespace {

constexpr uint16_t kAfIb = 27;

TEST_F(UcmaTest, AHeaderThatSaysMoreThanThereIsIsRefused) {
  std::vector<uint8_t> bytes(sizeof(rdma_ucm_cmd_hdr) + 4);
  bytes[4] = 5;  // `in`
  EXPECT_EQ(client.WriteBytes(bytes).error, EINVAL);
  bytes.resize(3);
  EXPECT_EQ(client.WriteBytes(bytes).error, EINVAL);
}

TEST_F(UcmaTest, CommandsThatTheKernelDoesNotHaveAreRefusedAsThere) {
  EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_GET_OPTION, rdma_ucm_query{}).error, ENOSYS);
  EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_JOIN_MCAST + 1, rdma_ucm_query{}).error, EINVAL);
}

TEST_F(UcmaTest, NoCommandIsTakenThatIsTooShort) {
  const std::vector<uint8_t> bytes(512);
  for (uint32_t number = 0; number <= RDMA_USER_CM_CMD_JOIN_MCAST; ++number) {
    if (number == RDMA_USER_CM_CMD_GET_OPTION) continue;
    EXPECT_EQ(client.Write(number, bytes, 1024, UcmaProgram::kFile, 3).error, EINVAL) << number;
  }
}

TEST_F(UcmaTest, AnswersWithoutRoomAreRefusedAndNothingIsDone) {
  for (const uint32_t number :
       {RDMA_USER_CM_CMD_CREATE_ID, RDMA_USER_CM_CMD_DESTROY_ID, RDMA_USER_CM_CMD_QUERY_ROUTE,
        RDMA_USER_CM_CMD_INIT_QP_ATTR, RDMA_USER_CM_CMD_GET_EVENT, RDMA_USER_CM_CMD_JOIN_IP_MCAST,
        RDMA_USER_CM_CMD_LEAVE_MCAST, RDMA_USER_CM_CMD_MIGRATE_ID, RDMA_USER_CM_CMD_JOIN_MCAST}) {
    EXPECT_EQ(client.Write(number, std::array<uint8_t, 512>{}, 3).error, ENOSPC) << number;
  }
  EXPECT_EQ(client.files().id_count(), 0u);
}

TEST_F(UcmaTest, UnknownIdsAndIdsOfOtherFilesAreToldApart) {
  constexpr FileId kOtherFile{2};
  client.files().Open(kOtherFile);
  const uint32_t id = client.CreateId(1);
  EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id + 1, 1}).error, ENOENT);
  EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, 1}, 0, kOtherFile).error,
            EINVAL);
}

TEST_F(UcmaTest, AddressesOfOtherFamiliesAreRefused) {
  const uint32_t id = client.CreateId(1, RDMA_PS_IB);
  std::array<uint8_t, 48> address{};
  std::memcpy(address.data(), &kAfIb, sizeof(kAfIb));
  EXPECT_EQ(client.Bind(id, address), EAFNOSUPPORT);
  EXPECT_EQ(client.Resolve(id, address), EAFNOSUPPORT);
}

TEST_F(UcmaTest, AddressesHaveTheSizeOfTheirFamily) {
  const uint32_t id = client.CreateId(1);
  rdma_ucm_bind bind{};
  bind.id = id;
  bind.addr = Stored<__kernel_sockaddr_storage>(Address(1, 0));
  for (const uint16_t size : {uint16_t{0}, uint16_t{15}, uint16_t{28}}) {
    bind.addr_size = size;
    EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_BIND, bind).error, EINVAL) << size;
  }
}

TEST_F(UcmaTest, OlderCommandsBindAndResolveToo) {
  const uint32_t id = client.CreateId(1);
  rdma_ucm_bind_ip bind{};
  bind.id = id;
  bind.addr = Stored<sockaddr_in6>(Address(1, 1234));
  EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_BIND_IP, bind).error, 0);
  rdma_ucm_resolve_ip resolve{};
  resolve.id = id;
  resolve.timeout_ms = 1000;
  resolve.dst_addr = Stored<sockaddr_in6>(Address(2, kPort));
  EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_RESOLVE_IP, resolve).error, 0);
  Run();
  client.Take(Kind::kAddressResolved);
  rdma_ucm_query query{};
  query.id = id;
  const auto route = client.Ask<rdma_ucm_query_route_resp>(RDMA_USER_CM_CMD_QUERY_ROUTE, query);
  EXPECT_EQ(route.node_guid, UcmaProgram::kNodeGuid);
  EXPECT_EQ(route.num_paths, 0u);
  EXPECT_EQ(route.ib_route[0].sgid[15], 1);
  EXPECT_EQ(route.ib_route[0].dgid[15], 2);
  EXPECT_EQ(route.ib_route[0].pkey, 0xffff);
  EXPECT_EQ(std::memcmp(&route.dst_addr, &resolve.dst_addr, sizeof(sockaddr_in)), 0);
}

TEST_F(UcmaTest, AnIdAtLoopbackHasItsAddressAndNoDevice) {
  const uint32_t id = client.CreateId(1);
  sockaddr_in address = Address(1, 1234);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(client.Bind(id, address), 0);
  const auto answer = client.Query<rdma_ucm_query_addr_resp>(id, RDMA_USER_CM_QUERY_ADDR);
  ASSERT_EQ(answer.src_size, sizeof(sockaddr_in));
  EXPECT_EQ(std::memcmp(&answer.src_addr, &address, sizeof(address)), 0);
  EXPECT_EQ(answer.node_guid, 0u);
  EXPECT_EQ(answer.port_num, 0);
}

TEST_F(UcmaTest, AnIdThatIsNotBoundHasNoAddresses) {
  const auto answer =
      client.Query<rdma_ucm_query_addr_resp>(client.CreateId(1), RDMA_USER_CM_QUERY_ADDR);
  EXPECT_EQ(answer.src_size, 0);
  EXPECT_EQ(answer.dst_size, 0);
  EXPECT_EQ(answer.node_guid, 0u);
}

TEST_F(UcmaTest, BoundAndResolvedIdsTellTheirAddressesAndDevice) {
  const uint32_t id = Resolved(1);
  const auto answer = client.Query<rdma_ucm_query_addr_resp>(id, RDMA_USER_CM_QUERY_ADDR);
  EXPECT_EQ(answer.node_guid, UcmaProgram::kNodeGuid);
  EXPECT_EQ(answer.port_num, 1);
  EXPECT_EQ(answer.pkey, 0xffff);
  ASSERT_EQ(answer.src_size, sizeof(sockaddr_in));
  ASSERT_EQ(answer.dst_size, sizeof(sockaddr_in));
  const sockaddr_in to = Address(2, kPort);
  EXPECT_EQ(std::memcmp(&answer.dst_addr, &to, sizeof(to)), 0);
  sockaddr_in from{};
  std::memcpy(&from, &answer.src_addr, sizeof(from));
  EXPECT_EQ(from.sin_addr.s_addr, Address(1, 0).sin_addr.s_addr);
  EXPECT_NE(from.sin_port, 0);
}

TEST_F(UcmaTest, Ipv6AddressesComeBackAsTheyWentIn) {
  const uint32_t id = client.CreateId(1);
  const sockaddr_in6 own = Address6(1, 4321);
  ASSERT_EQ(client.Bind(id, own), 0);
  const auto answer = client.Query<rdma_ucm_query_addr_resp>(id, RDMA_USER_CM_QUERY_ADDR);
  ASSERT_EQ(answer.src_size, sizeof(own));
  EXPECT_EQ(std::memcmp(&answer.src_addr, &own, sizeof(own)), 0);
}

TEST_F(UcmaTest, GidsAreAddressesWithTheServiceId) {
  const auto answer = client.Query<rdma_ucm_query_addr_resp>(Resolved(1), RDMA_USER_CM_QUERY_GID);
  std::array<uint8_t, 48> to{};
  ASSERT_EQ(answer.dst_size, to.size());
  std::memcpy(to.data(), &answer.dst_addr, to.size());
  EXPECT_EQ(to[0], kAfIb);
  EXPECT_EQ(to[8 + 15], 2);  // sib_addr
  const std::array<uint8_t, 8> service = {0, 0, 0, 0, 1, 6, kPort >> 8, kPort & 0xff};
  EXPECT_TRUE(std::ranges::equal(service, std::span(to).subspan(24, 8)));
}

TEST_F(UcmaTest, PathsAreThereOnceTheRouteIs) {
  const uint32_t id = client.CreateId(1);
  EXPECT_EQ(client.Query<PathResponse>(id, RDMA_USER_CM_QUERY_PATH).num_paths, 0u);
  const auto answer = client.Query<PathResponse>(Resolved(2), RDMA_USER_CM_QUERY_PATH);
  ASSERT_EQ(answer.num_paths, 1u);
  std::array<uint8_t, 64> record{};
  std::memcpy(record.data(), answer.path.path_rec, record.size());
  EXPECT_EQ(record[8 + 15], 2);     // dgid
  EXPECT_EQ(record[24 + 15], 1);    // sgid
  EXPECT_EQ(record[47], 64);        // hop limit
  EXPECT_EQ(record[54] & 0x3f, 5);  // mtu
}

TEST_F(UcmaTest, UnknownQueriesAndOptionsAreSaidToBeUnknown) {
  const uint32_t id = client.CreateId(1);
  rdma_ucm_query query{};
  query.id = id;
  query.option = 3;
  EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_QUERY, query, 1024).error, ENOSYS);
  rdma_ucm_set_option option{};
  option.id = id;
  option.level = RDMA_OPTION_IB;
  EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_SET_OPTION, option).error, ENOSYS);
  option.level = RDMA_OPTION_ID;
  option.optname = RDMA_OPTION_ID_ACK_TIMEOUT + 1;
  EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_SET_OPTION, option).error, ENOSYS);
}

TEST_F(UcmaTest, OptionsHaveValuesOfTheirSize) {
  const uint32_t id = client.CreateId(1);
  struct Case {
    uint32_t name;
    size_t size;
  };
  for (const Case& c : {Case{RDMA_OPTION_ID_TOS, 1}, Case{RDMA_OPTION_ID_REUSEADDR, 4},
                        Case{RDMA_OPTION_ID_AFONLY, 4}, Case{RDMA_OPTION_ID_ACK_TIMEOUT, 1}}) {
    rdma_ucm_set_option option{};
    option.id = id;
    option.optname = c.name;
    for (const size_t size : {size_t{0}, size_t{2}, c.size}) {
      option.optlen = static_cast<uint32_t>(size);
      const std::vector<uint8_t> value(size, 1);
      EXPECT_EQ(client
                    .Write(RDMA_USER_CM_CMD_SET_OPTION, option, 0, UcmaProgram::kFile,
                           sizeof(option), value)
                    .error,
                size == c.size ? 0 : EINVAL)
          << c.name << " " << size;
    }
    option.optlen = 9;  // More than came along.
    EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_SET_OPTION, option).error, EINVAL);
  }
}

TEST_F(UcmaTest, TheTypeOfServiceReachesThePath) {
  const uint32_t id = client.CreateId(1);
  rdma_ucm_set_option option{};
  option.id = id;
  option.optlen = 1;
  ASSERT_EQ(
      client
          .Write(RDMA_USER_CM_CMD_SET_OPTION, option, 0, UcmaProgram::kFile, sizeof(option), {0x68})
          .error,
      0);
  ASSERT_EQ(client.Resolve(id, Address(2, kPort)), 0);
  Run();
  ASSERT_EQ(client.ResolveRoute(id), 0);
  Run();
  const auto answer = client.Query<PathResponse>(id, RDMA_USER_CM_QUERY_PATH);
  std::array<uint8_t, 64> record{};
  std::memcpy(record.data(), answer.path.path_rec, record.size());
  EXPECT_EQ(record[48], 0x68);
}

TEST_F(UcmaTest, ConnectionsNeedParametersAndDataThatFit) {
  const uint32_t id = Resolved(1);
  rdma_ucm_connect connect{};
  connect.id = id;
  EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_CONNECT, connect).error, EINVAL);
  connect.conn_param.valid = 1;
  for (const uint8_t length : {uint8_t{57}, uint8_t{200}, uint8_t{255}}) {
    connect.conn_param.private_data_len = length;
    EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_CONNECT, connect).error, EINVAL) << int{length};
  }
}

// Without what was added to the structures later.
TEST_F(UcmaTest, OlderProgramsSayAndHearLess) {
  Listen(3);
  rdma_ucm_connect connect{};
  connect.id = Resolved(1);
  connect.conn_param.valid = 1;
  EXPECT_EQ(client
                .Write(RDMA_USER_CM_CMD_CONNECT, connect, 0, UcmaProgram::kFile,
                       offsetof(rdma_ucm_connect, ece))
                .error,
            0);
  Run();
  const Answer event = server.Write(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{},
                                    offsetof(rdma_ucm_event_resp, reserved));
  EXPECT_EQ(event.error, 0);
  EXPECT_EQ(event.response.size(), offsetof(rdma_ucm_event_resp, reserved));
}

TEST_F(UcmaTest, OnlyFirstPacketsAreNotified) {
  const uint32_t id = client.CreateId(1);
  EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{id, IBV_EVENT_QP_FATAL}).error,
            EINVAL);
}

}  // namespace
}  // namespace uroce::nic::ucma
