// SPDX-License-Identifier: Apache-2.0
// Connections, datagram services and multicast by commands, in the order of librdmacm.
#include <string_view>

#include "tests/nic/ucma/ucma_bed.h"

namespace uroce::nic::ucma {
namespace {

std::string_view PrivateData(const rdma_ucm_conn_param& parameters) {
  return reinterpret_cast<const char*>(parameters.private_data);
}

TEST_F(UcmaTest, ARequestIsANewIdUnderItsListenersUid) {
  const uint32_t listener = Listen(0x33);
  const uint32_t id = Resolved(0x11);
  ASSERT_EQ(client.Connect(id, "hello"), 0);
  Run();
  const rdma_ucm_event_resp event = server.Take(Kind::kConnectRequest);
  EXPECT_EQ(event.uid, 0x33u);
  EXPECT_NE(event.id, listener);
  EXPECT_EQ(PrivateData(event.param.conn), "hello");
  EXPECT_EQ(event.param.conn.private_data_len, 56);
  EXPECT_EQ(event.param.conn.qp_num, 0x123u);
  EXPECT_EQ(event.param.conn.responder_resources, 4);
  EXPECT_EQ(server.files().id_count(), 2u);
}

TEST_F(UcmaTest, AConnectionIsEstablishedUnderTheUidsOfBothSides) {
  Listen(3);
  const uint32_t active = Resolved(1);
  ASSERT_EQ(client.Connect(active), 0);
  Run();
  const uint32_t passive = server.Take(Kind::kConnectRequest).id;
  ASSERT_EQ(server.Accept(passive, 2, "welcome"), 0);
  Run();
  const rdma_ucm_event_resp response = client.Take(Kind::kConnectResponse);
  EXPECT_EQ(response.uid, 1u);
  EXPECT_EQ(response.id, active);
  EXPECT_EQ(PrivateData(response.param.conn), "welcome");
  ASSERT_EQ(client.Establish(active), 0);
  Run();
  const rdma_ucm_event_resp established = server.Take(Kind::kEstablished);
  EXPECT_EQ(established.uid, 2u);
  EXPECT_EQ(established.id, passive);
}

TEST_F(UcmaTest, BothSidesLearnOfTheEnd) {
  const Pair pair = Connected();
  ASSERT_EQ(client.Disconnect(pair.active), 0);
  Run();
  EXPECT_EQ(server.Take(Kind::kDisconnected).uid, 2u);
  ASSERT_EQ(server.Disconnect(pair.passive), 0);
  Run();
  EXPECT_EQ(client.Take(Kind::kDisconnected).uid, 1u);
}

TEST_F(UcmaTest, ARefusalCarriesItsReasonAndData) {
  Listen(3);
  const uint32_t id = Resolved(1);
  ASSERT_EQ(client.Connect(id), 0);
  Run();
  rdma_ucm_reject reject{};
  reject.id = server.Take(Kind::kConnectRequest).id;
  reject.private_data_len = 4;
  std::memcpy(reject.private_data, "no!", 4);
  EXPECT_EQ(server.Write(RDMA_USER_CM_CMD_REJECT, reject).error, 0);
  Run();
  const rdma_ucm_event_resp event = client.Take(Kind::kRejected);
  EXPECT_EQ(event.status, 28u);
  EXPECT_EQ(PrivateData(event.param.conn), "no!");
}

TEST_F(UcmaTest, NoListenerIsARefusalToo) {
  const uint32_t id = Resolved(1);
  ASSERT_EQ(client.Connect(id), 0);
  Run();
  EXPECT_EQ(client.Take(Kind::kRejected).status, 8u);
}

// As the kernel: the program has no name for the id yet.
TEST_F(UcmaTest, WhatHappensToARequestBeforeItIsAcceptedIsNotTold) {
  Listen(3);
  const uint32_t active = Resolved(1);
  ASSERT_EQ(client.Connect(active), 0);
  Run();
  const uint32_t passive = server.Take(Kind::kConnectRequest).id;
  client.DestroyId(active);
  Run();
  EXPECT_FALSE(server.HasEvent());
  EXPECT_NE(server.Accept(passive, 2), 0);
  server.DestroyId(passive);
}

TEST_F(UcmaTest, ListenersOfDatagramsGetRequestsInTheLayoutOfDatagrams) {
  Listen(3, RDMA_PS_UDP);
  const uint32_t id = Resolved(1, RDMA_PS_UDP);
  ASSERT_EQ(client.Connect(id, "who?"), 0);
  Run();
  const rdma_ucm_event_resp request = server.Take(Kind::kConnectRequest);
  EXPECT_STREQ(reinterpret_cast<const char*>(request.param.ud.private_data), "who?");
  EXPECT_EQ(request.param.ud.private_data_len, 180);
  ASSERT_EQ(server.Accept(request.id, 2), 0);
  Run();
  const rdma_ucm_event_resp answer = client.Take(Kind::kEstablished);
  EXPECT_EQ(answer.param.ud.qp_num, 0x123u);
  EXPECT_EQ(answer.param.ud.qkey, 0x01234567u);
  EXPECT_EQ(answer.param.ud.ah_attr.is_global, 1);
  EXPECT_EQ(answer.param.ud.ah_attr.grh.dgid[15], 2);
}

TEST_F(UcmaTest, QueuePairsGetTheirAttributesForEachState) {
  const Pair pair = Connected();
  rdma_ucm_init_qp_attr command{};
  command.id = pair.active;
  command.qp_state = IBV_QPS_INIT;
  const auto init = client.Ask<ib_uverbs_qp_attr>(RDMA_USER_CM_CMD_INIT_QP_ATTR, command);
  EXPECT_EQ(init.qp_state, static_cast<uint32_t>(IBV_QPS_INIT));
  EXPECT_EQ(init.port_num, 1);
  command.qp_state = IBV_QPS_RTR;
  const auto rtr = client.Ask<ib_uverbs_qp_attr>(RDMA_USER_CM_CMD_INIT_QP_ATTR, command);
  EXPECT_EQ(rtr.dest_qp_num, 0x123u);
  EXPECT_NE(rtr.qp_attr_mask & IBV_QP_AV, 0u);
  EXPECT_EQ(rtr.ah_attr.grh.dgid[15], 2);
  command.qp_state = IBV_QPS_RTS;
  const auto rts = client.Ask<ib_uverbs_qp_attr>(RDMA_USER_CM_CMD_INIT_QP_ATTR, command);
  EXPECT_NE(rts.qp_attr_mask & IBV_QP_SQ_PSN, 0u);
  EXPECT_EQ(rts.retry_cnt, 7);
  command.qp_state = IBV_QPS_ERR + 1;
  EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_INIT_QP_ATTR, command, sizeof(ib_uverbs_qp_attr)).error,
            EINVAL);
}

TEST_F(UcmaTest, AMembershipHasItsOwnNumberAndUid) {
  const uint32_t id = client.CreateId(1, RDMA_PS_UDP);
  ASSERT_EQ(client.Bind(id, Address(1, 0)), 0);
  rdma_ucm_join_mcast join{};
  join.id = id;
  join.uid = 0x77;
  join.addr_size = sizeof(sockaddr_in);
  sockaddr_in group = Address(0, 0);
  group.sin_addr.s_addr = htonl(0xe0000001);
  join.addr = Stored<__kernel_sockaddr_storage>(group);
  const uint32_t membership =
      client.Ask<rdma_ucm_create_id_resp>(RDMA_USER_CM_CMD_JOIN_MCAST, join).id;
  const rdma_ucm_event_resp event = client.Take(Kind::kMulticastJoin);
  EXPECT_EQ(event.uid, 0x77u);
  EXPECT_EQ(event.id, membership);
  EXPECT_EQ(event.param.ud.qp_num, 0xffffffu);
  rdma_ucm_destroy_id leave{};
  leave.id = membership;
  EXPECT_EQ(
      client.Ask<rdma_ucm_destroy_id_resp>(RDMA_USER_CM_CMD_LEAVE_MCAST, leave).events_reported,
      1u);
  EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_LEAVE_MCAST, leave, 4).error, ENOENT);
  EXPECT_EQ(client.DestroyId(id), 1u);  // It was reported of the id, too.
}

TEST_F(UcmaTest, LeavingTakesTheEventOfTheJoinBack) {
  const uint32_t id = client.CreateId(1, RDMA_PS_UDP);
  ASSERT_EQ(client.Bind(id, Address(1, 0)), 0);
  rdma_ucm_join_ip_mcast join{};
  join.id = id;
  sockaddr_in group = Address(0, 0);
  group.sin_addr.s_addr = htonl(0xe0000001);
  join.addr = Stored<sockaddr_in6>(group);
  rdma_ucm_destroy_id leave{};
  leave.id = client.Ask<rdma_ucm_create_id_resp>(RDMA_USER_CM_CMD_JOIN_IP_MCAST, join).id;
  EXPECT_TRUE(client.HasEvent());
  EXPECT_EQ(
      client.Ask<rdma_ucm_destroy_id_resp>(RDMA_USER_CM_CMD_LEAVE_MCAST, leave).events_reported,
      0u);
  EXPECT_FALSE(client.HasEvent());
}

}  // namespace
}  // namespace uroce::nic::ucma
