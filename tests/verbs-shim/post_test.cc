// SPDX-License-Identifier: Apache-2.0
// ibv_post_send and ibv_post_recv: legality, capacity, lists, inline, doorbells.
#include <unistd.h>

#include <cstring>

#include "pipeline/shm/rings/doorbells.h"
#include "tests/verbs-shim/shim_fixture.h"

namespace uroce::shim_test {
namespace {

class PostTest : public ShimTest {
 protected:
  uint32_t RungDoorbells() {
    return rings::Take(daemon_->doorbells(), [](uint32_t) {});
  }
  ibv_sge sge_{0x4000, 32, 5};
};

TEST_F(PostTest, AWriteArrivesWithAllItsFields) {
  ASSERT_EQ(Post(Write(11, &sge_)), 0);
  const rings::SendWqe wqe = TakeSend();
  EXPECT_EQ(wqe.header.wr_id, 11u);
  EXPECT_EQ(wqe.header.opcode, IBV_WR_RDMA_WRITE);
  EXPECT_EQ(wqe.header.flags, UROCE_SEND_SIGNALED);
  EXPECT_EQ(wqe.header.remote_addr, 0x1000u);
  EXPECT_EQ(wqe.header.rkey, 77u);
  EXPECT_EQ(wqe.header.num_sge, 1);
  EXPECT_EQ(wqe.sges[0].addr, 0x4000u);
  EXPECT_EQ(wqe.sges[0].length, 32u);
  EXPECT_EQ(wqe.sges[0].lkey, 5u);
}

TEST_F(PostTest, AnAtomicArrivesWithItsOperands) {
  sge_.length = 8;
  ibv_send_wr wr = Write(1, &sge_);
  wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.wr.atomic = {0x2008, 3, 4, 99};
  ASSERT_EQ(Post(wr), 0);
  const rings::SendWqe wqe = TakeSend();
  EXPECT_EQ(wqe.header.remote_addr, 0x2008u);
  EXPECT_EQ(wqe.header.atomic.compare_add, 3u);
  EXPECT_EQ(wqe.header.atomic.swap, 4u);
  EXPECT_EQ(wqe.header.rkey, 99u);
}

TEST_F(PostTest, ADatagramArrivesWithItsAddress) {
  ASSERT_EQ(ibv_destroy_qp(qp_), 0);
  qp_ = CreateQp(cq_, false, IBV_QPT_UD);
  MoveTo(IBV_QPS_RTS);
  ibv_ah_attr attr = {};
  attr.is_global = 1;
  ibv_ah* ah = ibv_create_ah(pd_, &attr);
  ASSERT_NE(ah, nullptr);
  ibv_send_wr wr = Write(1, nullptr);
  EXPECT_EQ(Post(wr), EINVAL) << "no WRITE by datagrams";
  wr.opcode = IBV_WR_SEND;
  wr.wr.ud = {ah, 77, 0x1234};
  ASSERT_EQ(Post(wr), 0);
  const rings::SendWqe wqe = TakeSend();
  EXPECT_EQ(wqe.header.datagram.ah, ah->handle);
  EXPECT_EQ(wqe.header.datagram.remote_qpn, 77u);
  EXPECT_EQ(wqe.header.datagram.remote_qkey, 0x1234u);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(PostTest, AnAtomicNeedsRoomForItsResult) {
  sge_.length = 8;
  ibv_send_wr wr = Write(1, &sge_);
  wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.wr.atomic = {0x2008, 3, 0, 99};
  EXPECT_EQ(Post(wr), 0);
  sge_.length = 7;
  EXPECT_EQ(Post(wr), EINVAL);
}

TEST_F(PostTest, AnAtomicWriteHasEightBytes) {
  ibv_send_wr wr = Write(1, &sge_);
  wr.opcode = IBV_WR_ATOMIC_WRITE;
  sge_.length = 8;
  EXPECT_EQ(Post(wr), 0);
  const rings::SendWqe wqe = TakeSend();
  EXPECT_EQ(wqe.header.opcode, IBV_WR_ATOMIC_WRITE);
  EXPECT_EQ(wqe.header.rkey, wr.wr.rdma.rkey);
  EXPECT_EQ(wqe.header.remote_addr, wr.wr.rdma.remote_addr);
  sge_.length = 7;
  EXPECT_EQ(Post(wr), EINVAL);
  wr.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(Post(wr), EINVAL);
  EXPECT_FALSE(HasSend());
}

TEST_F(PostTest, OpcodesThatAReliableConnectionLacksAreInvalid) {
  for (const ibv_wr_opcode opcode : {IBV_WR_TSO, IBV_WR_DRIVER1}) {
    ibv_send_wr wr = Write(1, &sge_);
    wr.opcode = opcode;
    EXPECT_EQ(Post(wr), EINVAL) << opcode;
  }
  EXPECT_FALSE(HasSend());
}

TEST_F(PostTest, AListStopsAtItsFirstBadRequest) {
  ibv_send_wr good = Write(1, &sge_);
  ibv_send_wr bad = Write(2, &sge_);
  ibv_send_wr behind = Write(3, &sge_);
  bad.num_sge = 3;
  good.next = &bad;
  bad.next = &behind;
  ibv_send_wr* reported = nullptr;
  EXPECT_EQ(ibv_post_send(qp_, &good, &reported), EINVAL);
  EXPECT_EQ(reported, &bad);
  EXPECT_EQ(TakeSend().header.wr_id, 1u);
  EXPECT_FALSE(HasSend());
}

TEST_F(PostTest, AListRingsOnce) {
  (void)RungDoorbells();
  ibv_send_wr first = Write(1, &sge_);
  ibv_send_wr second = Write(2, &sge_);
  first.next = &second;
  ASSERT_EQ(Post(first), 0);
  EXPECT_EQ(RungDoorbells(), 1u);
}

TEST_F(PostTest, TheGrantedDepthIsTheLimitAndAFullQueueSaysNoMemory) {
  for (uint32_t i = 0; i < kSendDepth; ++i) ASSERT_EQ(Post(Write(i, &sge_)), 0);
  EXPECT_EQ(Post(Write(99, &sge_)), ENOMEM);
  for (uint32_t i = 0; i < kReceiveDepth; ++i) ASSERT_EQ(PostReceive(i), 0);
  EXPECT_EQ(PostReceive(99), ENOMEM);
}

// Taking a request does not free its slot, nor does an unpolled completion.
TEST_F(PostTest, ASlotIsFreeOnlyAfterItsCompletionWasPolled) {
  for (uint32_t i = 0; i < kSendDepth; ++i) ASSERT_EQ(Post(Write(i, &sge_)), 0);
  for (uint32_t i = 0; i < kSendDepth; ++i) (void)TakeSend();
  Complete(0, 0);
  EXPECT_EQ(Post(Write(99, &sge_)), ENOMEM);
  EXPECT_EQ(PollAll(), std::vector<uint64_t>{0});
  EXPECT_EQ(Post(Write(99, &sge_)), 0);
  EXPECT_EQ(Post(Write(99, &sge_)), ENOMEM);
}

TEST_F(PostTest, ALaterCompletionFreesTheUnsignaledBeforeIt) {
  for (uint32_t i = 0; i < kSendDepth; ++i) ASSERT_EQ(Post(Write(i, &sge_)), 0);
  Complete(3, 3);
  EXPECT_EQ(PollAll(), std::vector<uint64_t>{3});
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(Post(Write(i, &sge_)), 0);
  EXPECT_EQ(Post(Write(99, &sge_)), ENOMEM);
}

TEST_F(PostTest, InlineBytesAreCopiedAtThePost) {
  char text[] = "inline bytes";
  ibv_sge parts[2] = {{reinterpret_cast<uint64_t>(text), 7, 0},
                      {reinterpret_cast<uint64_t>(text + 7), 5, 0}};
  ibv_send_wr wr = Write(1, parts);
  wr.num_sge = 2;
  wr.send_flags |= IBV_SEND_INLINE;
  ASSERT_EQ(Post(wr), 0);
  memset(text, 0, sizeof(text));
  const rings::SendWqe wqe = TakeSend();
  ASSERT_EQ(wqe.header.inline_length, 12u);
  EXPECT_EQ(memcmp(wqe.inline_data, "inline bytes", 12), 0);
}

TEST_F(PostTest, InlineBeyondTheGrantedSizeOrOfAReadIsInvalid) {
  char bytes[65] = {};
  ibv_sge sge = {reinterpret_cast<uint64_t>(bytes), 65, 0};
  ibv_send_wr wr = Write(1, &sge);
  wr.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(Post(wr), EINVAL);
  sge.length = 64;
  EXPECT_EQ(Post(wr), 0);
  wr.opcode = IBV_WR_RDMA_READ;
  EXPECT_EQ(Post(wr), EINVAL);
}

TEST_F(PostTest, StatesBeforeReadyToSendRefuseSends) {
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RESET}) {
    MoveTo(state);
    EXPECT_EQ(Post(Write(1, &sge_)), EINVAL) << state;
  }
  for (const ibv_qp_state state : {IBV_QPS_SQD, IBV_QPS_ERR}) {
    MoveTo(state);
    EXPECT_EQ(Post(Write(1, &sge_)), 0) << state;
  }
}

TEST_F(PostTest, OnlyResetRefusesReceives) {
  MoveTo(IBV_QPS_RESET);
  EXPECT_EQ(PostReceive(1), EINVAL);
  MoveTo(IBV_QPS_INIT);
  EXPECT_EQ(PostReceive(1), 0);
}

TEST_F(PostTest, AReceiveRingsOnlyWhenTheQueuePairIsInError) {
  (void)RungDoorbells();
  EXPECT_EQ(PostReceive(1), 0);
  EXPECT_EQ(RungDoorbells(), 0u);
  // As the daemon does when the transport fails: the program has not been told.
  rings::StoreRelease(fake_qp().page->state.value, uint32_t{IBV_QPS_ERR});
  EXPECT_EQ(PostReceive(2), 0);
  EXPECT_EQ(RungDoorbells(), 1u);
}

TEST_F(PostTest, TooManyReceiveSgesAreInvalid) {
  EXPECT_EQ(PostReceive(1, 2), 0);
  EXPECT_EQ(PostReceive(1, 3), EINVAL);
  EXPECT_EQ(PostReceive(1, -1), EINVAL);
}

TEST_F(PostTest, ASleepingWorkerIsWokenByItsEventfd) {
  ASSERT_EQ(Post(Write(1, &sge_)), 0);
  uint64_t value = 0;
  EXPECT_EQ(read(daemon_->wake_fd(), &value, sizeof(value)), -1);
  (void)RungDoorbells();
  ASSERT_TRUE(rings::AnnounceSleep(daemon_->doorbells()));
  errno = 0;
  ASSERT_EQ(Post(Write(2, &sge_)), 0);
  EXPECT_EQ(errno, 0);
  EXPECT_EQ(read(daemon_->wake_fd(), &value, sizeof(value)), 8);
}

// It may wait long for a processor: until then each post would be a system call.
TEST_F(PostTest, AWorkerThatSleepsOnIsWokenOnce) {
  ASSERT_TRUE(rings::AnnounceSleep(daemon_->doorbells()));
  ASSERT_EQ(Post(Write(1, nullptr)), 0);
  ASSERT_EQ(Post(Write(2, nullptr)), 0);
  uint64_t wakes = 0;
  ASSERT_EQ(read(daemon_->wake_fd(), &wakes, sizeof(wakes)), 8);
  EXPECT_EQ(wakes, 1u);
  rings::AnnounceAwake(daemon_->doorbells());
  EXPECT_EQ(rings::Take(daemon_->doorbells(), [](uint32_t) {}), 1u);
  ASSERT_TRUE(rings::AnnounceSleep(daemon_->doorbells()));
  ASSERT_EQ(Post(Write(3, nullptr)), 0);
  EXPECT_EQ(read(daemon_->wake_fd(), &wakes, sizeof(wakes)), 8) << "asleep again, woken again";
}

TEST_F(PostTest, ResetDropsWhatWasPostedAndItsCompletions) {
  for (uint32_t i = 0; i < kSendDepth; ++i) ASSERT_EQ(Post(Write(i, &sge_)), 0);
  Complete(0, 0);
  MoveTo(IBV_QPS_RESET);
  EXPECT_TRUE(PollAll().empty());
  MoveTo(IBV_QPS_RTS);
  for (uint32_t i = 0; i < kSendDepth; ++i) EXPECT_EQ(Post(Write(i, &sge_)), 0);
}

TEST_F(PostTest, TwoThreadsMayPostToOneQueue) {
  constexpr uint32_t kRounds = 2'000;
  const auto post = [this] {
    for (uint32_t i = 0; i < kRounds;) {
      if (Post(Write(i, nullptr)) == 0) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  };
  std::thread first(post);
  std::thread second(post);
  for (uint32_t i = 0; i < 2 * kRounds;) {
    if (!HasSend()) {
      std::this_thread::yield();
      continue;
    }
    (void)TakeSend();
    Complete(i, i);
    ASSERT_EQ(PollAll(), std::vector<uint64_t>{i});
    ++i;
  }
  first.join();
  second.join();
}

}  // namespace
}  // namespace uroce::shim_test
