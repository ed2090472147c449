// SPDX-License-Identifier: Apache-2.0
// Queue pairs: capacities, attributes to and from the daemon, and ibv_qp_ex.
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/verbs-shim/shim_fixture.h"

namespace uroce::shim_test {
namespace {

/// The bytes of mappings with the permissions `wanted`, as /proc/self/maps writes them.
uint64_t MappedBytes(const std::string& wanted) {
  std::ifstream maps("/proc/self/maps");
  uint64_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    const size_t dash = line.find('-'), blank = line.find(' ');
    if (line.compare(blank + 1, wanted.size(), wanted) != 0) continue;
    bytes += std::stoull(line.substr(dash + 1), nullptr, 16) - std::stoull(line, nullptr, 16);
  }
  return bytes;
}

class QueuePairTest : public ShimTest {
 protected:
  /// Of the connections of tests before this one, which stay.
  const uint64_t accessible_before_ = MappedBytes("-w-s"), others_before_ = MappedBytes("---s");

  ibv_qp_ex* CreateExtended(ibv_qp_type type = IBV_QPT_RC,
                            uint64_t calls = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND) {
    ibv_qp_init_attr_ex init = {};
    init.send_cq = init.recv_cq = cq_;
    init.qp_type = type;
    init.cap = {kSendDepth, kReceiveDepth, 2, 2, 64};
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd_;
    init.send_ops_flags = calls;
    ibv_qp* made = ibv_create_qp_ex(context_, &init);
    if (made == nullptr) return nullptr;
    EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    qp_ = made;
    MoveTo(IBV_QPS_RTS);
    return ibv_qp_to_qp_ex(qp_);
  }
};

TEST_F(QueuePairTest, CapacitiesBecomeWhatWasGranted) {
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = cq_;
  init.qp_type = IBV_QPT_RC;
  init.cap = {3, 5, 1, 1, 0};
  ibv_qp* other = ibv_create_qp(pd_, &init);
  ASSERT_NE(other, nullptr);
  EXPECT_GE(init.cap.max_send_wr, 3u);
  EXPECT_GE(init.cap.max_recv_wr, 5u);
  EXPECT_EQ(other->state, IBV_QPS_RESET);
  EXPECT_EQ(ibv_destroy_qp(other), 0);
}

// mlockall(2) would bring in all of the arena that the program could access.
TEST_F(QueuePairTest, TheArenaHasAccessAsFarAsQueuesReach) {
  constexpr uint64_t kMuch = 8 << 20;
  const uint64_t before = MappedBytes("-w-s");
  EXPECT_LT(before - accessible_before_, kMuch);
  EXPECT_GT(MappedBytes("---s") - others_before_, UROCE_ARENA_BYTES - kMuch);
  std::vector<ibv_qp*> more;
  for (int i = 0; i < 500; ++i) {
    more.push_back(CreateQp());
    ASSERT_NE(more.back(), nullptr);
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    ASSERT_EQ(ibv_modify_qp(more.back(), &attr, IBV_QP_STATE), 0);
    ibv_recv_wr receive = {}, *bad = nullptr;
    EXPECT_EQ(ibv_post_recv(more.back(), &receive, &bad), 0);
  }
  EXPECT_GT(MappedBytes("-w-s"), before);
  EXPECT_LT(MappedBytes("-w-s") - accessible_before_, kMuch);
  for (ibv_qp* qp : more) EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

// The queue pair was made for lists of two entries, and no request has more than 16.
TEST_F(QueuePairTest, InlineBytesMayComeInManyPieces) {
  ibv_qp_ex* qp = CreateExtended();
  ASSERT_NE(qp, nullptr);
  std::string text = "fifty bytes in fifty pieces, and an empty one then";
  std::vector<ibv_data_buf> pieces;
  for (char& letter : text) pieces.push_back({&letter, 1});
  pieces.push_back({nullptr, 0});
  ibv_wr_start(qp);
  qp->wr_id = 1;
  ibv_wr_rdma_write(qp, 77, 0x1000);
  ibv_wr_set_inline_data_list(qp, pieces.size(), pieces.data());
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  const rings::SendWqe wqe = TakeSend();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(wqe.inline_data), wqe.header.inline_length),
            text);
  std::vector<ibv_data_buf> too_many(221, pieces[0]);
  ibv_wr_start(qp);
  ibv_wr_rdma_write(qp, 77, 0x1000);
  ibv_wr_set_inline_data_list(qp, too_many.size(), too_many.data());
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  EXPECT_FALSE(HasSend());
}

TEST_F(QueuePairTest, TheDaemonsRefusalIsTheErrno) {
  daemon_->FailNext(UROCE_CREATE_QP, EINVAL);
  errno = 0;
  EXPECT_EQ(CreateQp(), nullptr);
  EXPECT_EQ(errno, EINVAL);
  daemon_->FailNext(UROCE_MODIFY_QP, EINVAL);
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(ibv_modify_qp(qp_, &attr, IBV_QP_STATE), EINVAL);
  EXPECT_EQ(qp_->state, IBV_QPS_RTS);
  daemon_->FailNext(UROCE_DESTROY_CQ, EBUSY);
  EXPECT_EQ(ibv_destroy_cq(cq_), EBUSY);
}

TEST_F(QueuePairTest, OnlyMaskedAttributesReachTheDaemon) {
  ibv_qp_attr attr;
  memset(&attr, 0xee, sizeof(attr));
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.ah_attr = {};
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.sgid_index = 3;
  attr.ah_attr.grh.dgid.raw[15] = 9;
  ASSERT_EQ(ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_AV), 0);
  const auto sent = daemon_->Last(UROCE_MODIFY_QP).As<uroce_modify_qp>();
  EXPECT_EQ(sent.handle, qp_->handle);
  EXPECT_EQ(sent.attr.attr_mask, uint32_t{IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_AV});
  EXPECT_EQ(sent.attr.timeout, 14);
  EXPECT_EQ(sent.attr.retry_cnt, 0);
  EXPECT_EQ(sent.attr.rq_psn, 0u);
  EXPECT_EQ(sent.attr.ah_attr.sgid_index, 3);
  EXPECT_EQ(sent.attr.ah_attr.dgid[15], 9);
}

TEST_F(QueuePairTest, QueryTellsTheLiveState) {
  fake_qp().attributes = {.qp_state = IBV_QPS_ERR, .dest_qp_num = 5, .timeout = 7};
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(qp_, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_ERR);
  EXPECT_EQ(attr.cur_qp_state, IBV_QPS_ERR);
  EXPECT_EQ(attr.dest_qp_num, 5u);
  EXPECT_EQ(attr.timeout, 7);
  EXPECT_EQ(attr.cap.max_send_wr, kSendDepth);
  EXPECT_EQ(init.send_cq, cq_);
  EXPECT_EQ(init.cap.max_inline_data, 64u);
}

TEST_F(QueuePairTest, PlainQueuePairsHaveNoExtendedInterface) {
  EXPECT_EQ(ibv_qp_to_qp_ex(qp_), nullptr);
}

TEST_F(QueuePairTest, AListOfWrCallsIsPostedWhole) {
  ibv_qp_ex* extended = CreateExtended();
  ASSERT_NE(extended, nullptr);
  char text[] = "bytes";
  ibv_wr_start(extended);
  extended->wr_id = 1;
  extended->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(extended, 77, 0x1000);
  ibv_wr_set_sge(extended, 5, 0x4000, 32);
  extended->wr_id = 2;
  ibv_wr_send(extended);
  ibv_wr_set_inline_data(extended, text, 5);
  EXPECT_FALSE(HasSend());
  EXPECT_EQ(ibv_wr_complete(extended), 0);
  const rings::SendWqe write = TakeSend();
  EXPECT_EQ(write.header.wr_id, 1u);
  EXPECT_EQ(write.header.rkey, 77u);
  EXPECT_EQ(write.sges[0].length, 32u);
  const rings::SendWqe send = TakeSend();
  EXPECT_EQ(send.header.wr_id, 2u);
  EXPECT_EQ(send.header.inline_length, 5u);
  EXPECT_EQ(memcmp(send.inline_data, text, 5), 0);
  EXPECT_FALSE(HasSend());
}

TEST_F(QueuePairTest, TheBytesOfAnAtomicWriteAreTakenAtOnce) {
  ibv_qp_ex* extended = CreateExtended(IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_WRITE);
  ASSERT_NE(extended, nullptr);
  uint64_t value = 0x0123456789abcdef;
  ibv_wr_start(extended);
  extended->wr_id = 7;
  ibv_wr_atomic_write(extended, 77, 0x1008, &value);
  const uint64_t taken = std::exchange(value, 0);
  EXPECT_EQ(ibv_wr_complete(extended), 0);
  const rings::SendWqe wqe = TakeSend();
  EXPECT_EQ(wqe.header.opcode, IBV_WR_ATOMIC_WRITE);
  EXPECT_EQ(wqe.header.rkey, 77u);
  EXPECT_EQ(wqe.header.remote_addr, 0x1008u);
  EXPECT_EQ(wqe.header.inline_length, 8u);
  EXPECT_EQ(memcmp(wqe.inline_data, &taken, 8), 0);
}

TEST_F(QueuePairTest, TheAddressOfADatagramMayComeBeforeItsBytesOrAfterThem) {
  EXPECT_EQ(CreateExtended(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE), nullptr);
  ibv_qp_ex* extended = CreateExtended(IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
  ASSERT_NE(extended, nullptr);
  ibv_ah_attr attr = {};
  attr.is_global = 1;
  ibv_ah* ah = ibv_create_ah(pd_, &attr);
  char text[] = "bytes";
  ibv_wr_start(extended);
  ibv_wr_send(extended);
  ibv_wr_set_ud_addr(extended, ah, 7, 70);
  ibv_wr_set_inline_data(extended, text, 5);
  ibv_wr_send(extended);
  ibv_wr_set_inline_data(extended, text, 5);
  ibv_wr_set_ud_addr(extended, ah, 8, 80);
  ibv_wr_send(extended);
  ibv_wr_set_ud_addr(extended, ah, 9, 90);
  ibv_wr_set_sge(extended, 5, 0x4000, 32);
  ASSERT_EQ(ibv_wr_complete(extended), 0);
  for (const uint32_t qpn : {7u, 8u, 9u}) {
    const rings::SendWqe wqe = TakeSend();
    EXPECT_EQ(wqe.header.datagram.remote_qpn, qpn);
    EXPECT_EQ(wqe.header.datagram.remote_qkey, 10 * qpn);
    EXPECT_EQ(wqe.header.datagram.ah, ah->handle);
  }
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(QueuePairTest, AFailedWrListPostsNothing) {
  ibv_qp_ex* extended = CreateExtended();
  ASSERT_NE(extended, nullptr);
  ibv_wr_start(extended);
  ibv_wr_rdma_write(extended, 77, 0x1000);
  const ibv_sge sges[3] = {};
  ibv_wr_set_sge_list(extended, 3, sges);
  ibv_wr_send(extended);
  EXPECT_EQ(ibv_wr_complete(extended), EINVAL);
  EXPECT_FALSE(HasSend());
  ibv_wr_start(extended);
  ibv_wr_send(extended);
  ibv_wr_abort(extended);
  EXPECT_FALSE(HasSend());
}

}  // namespace
}  // namespace uroce::shim_test
