// SPDX-License-Identifier: Apache-2.0
// Packets behind a copy, and senders that are held meanwhile.
#include "pipeline/datapath/worker/waiting_packets.h"

#include "pipeline/datapath/queue/waiting_work.h"
#include "tests/datapath/worker/parts.h"

namespace uroce::datapath {
namespace {

class WaitingPacketsTest : public PartsTest {
 protected:
  uint64_t Dropped() const { return device_.Sum(&DeviceCounters::rx_parked_full); }
};

TEST_F(WaitingPacketsTest, PacketsComeBackInTheirOrder) {
  QueuePair& qp = AddQueuePair();
  EXPECT_EQ(waiting_packets_.Take(qp), nullptr);
  rte_mbuf* const first = NewFrame();
  rte_mbuf* const second = NewFrame();
  EXPECT_TRUE(waiting_packets_.Keep(qp, first));
  EXPECT_TRUE(waiting_packets_.Keep(qp, second));
  EXPECT_EQ(qp.waiting().packets, 2u);
  EXPECT_EQ(waiting_packets_.Take(qp), first);
  EXPECT_EQ(waiting_packets_.Take(qp), second);
  EXPECT_EQ(waiting_packets_.Take(qp), nullptr);
  EXPECT_EQ(first->next, nullptr) << "a frame is one segment again";
  for (rte_mbuf* frame : {first, second}) rte_pktmbuf_free(frame);
}

TEST_F(WaitingPacketsTest, AbandonedFramesGoBackToThePool) {
  const uint32_t before = rte_mempool_avail_count(TestPool());
  QueuePair& qp = AddQueuePair();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(waiting_packets_.Keep(qp, NewFrame()));
  waiting_packets_.Abandon(qp);
  EXPECT_EQ(qp.waiting().packets, 0u);
  EXPECT_EQ(qp.program().frames.waiting, 0u);
  EXPECT_EQ(rte_mempool_avail_count(TestPool()), before);
}

TEST_F(WaitingPacketsTest, ManyClosesTheGateAndFewOpenIt) {
  WaitingPackets waiting({.of_worker = 4096, .of_program = 4096, .of_queue_pair = 1024},
                         cross_worker_.gates(), recorder_);
  QueuePair& qp = AddQueuePair();
  const ReceiveGates& gates = *cross_worker_.gates();
  uint32_t kept = 0;
  for (; kept < 1024 && !gates.IsClosed(qp.qpn()); ++kept) {
    ASSERT_TRUE(waiting.Keep(qp, NewFrame()));
  }
  EXPECT_TRUE(gates.IsClosed(qp.qpn()));
  EXPECT_GT(kept, 1u);
  EXPECT_LT(kept, 1024u);
  rte_pktmbuf_free(waiting.Take(qp));
  waiting.TendGate(qp);
  EXPECT_TRUE(gates.IsClosed(qp.qpn())) << "one less is not few";
  waiting.Abandon(qp);
  EXPECT_FALSE(gates.IsClosed(qp.qpn()));
}

TEST_F(WaitingPacketsTest, BeyondTheLimitsOneIsDroppedAndCounted) {
  WaitingPackets waiting({.of_worker = 0, .of_program = 0, .of_queue_pair = 0}, nullptr, recorder_);
  QueuePair& qp = AddQueuePair();
  rte_mbuf* const frame = NewFrame();
  EXPECT_FALSE(waiting.Keep(qp, frame));
  EXPECT_EQ(Dropped(), 1u);
  EXPECT_EQ(waiting.Take(qp), nullptr);
  rte_pktmbuf_free(frame);
}

class HeldSendersTest : public PartsTest {
 protected:
  HeldSendersTest() { SetPeer(PeerPlace::kInDaemon); }
  void SetPeer(PeerPlace peer) {
    Path path;
    path.remote_qpn = Qpn(7);
    qp_.set_path(path, peer);
  }
  uint32_t Release() {
    uint32_t released = 0;
    held_.Release([&](QueuePair&) { ++released; });
    return released;
  }

  QueuePair& qp_ = AddQueuePair();
  HeldSenders held_{cross_worker_.gates(), waiting_packets_};
};

TEST_F(HeldSendersTest, WhosePeerHasClosedItsGateIsHeldUntilItOpens) {
  EXPECT_FALSE(held_.MustHold(qp_));
  cross_worker_.gates()->Close(Qpn(7));
  EXPECT_TRUE(held_.MustHold(qp_));
  held_.Add(qp_);
  held_.Add(qp_);
  EXPECT_EQ(Release(), 0u);
  EXPECT_FALSE(held_.empty());
  cross_worker_.gates()->Open(Qpn(7));
  EXPECT_EQ(Release(), 1u);
  EXPECT_TRUE(held_.empty());
  EXPECT_EQ(Release(), 0u);
}

TEST_F(HeldSendersTest, APeerElsewhereHasNoGate) {
  SetPeer(PeerPlace::kElsewhere);
  cross_worker_.gates()->Close(Qpn(7));
  EXPECT_FALSE(held_.MustHold(qp_));
}

TEST_F(HeldSendersTest, WhoGoesIsForgotten) {
  cross_worker_.gates()->Close(Qpn(7));
  held_.Add(qp_);
  held_.Remove(qp_);
  EXPECT_TRUE(held_.empty());
}

}  // namespace
}  // namespace uroce::datapath
