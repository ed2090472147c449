// SPDX-License-Identifier: Apache-2.0
// Paths that change under live queue pairs: another MAC at either end.
#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <cstring>

#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

constexpr Mac kOther{0x02, 0, 0, 0, 0, 0x77};

class WorkerPathsTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 200'000;

  WorkerPathsTest() { bed_.Connect(a_, b_); }

  void PostWrite() {
    a_.PostSend({.opcode = kWrite,
                 .wr_id = 1,
                 .list = {Testbed::Sge(from_, 0, kBytes)},
                 .remote_addr = to_.iova,
                 .rkey = to_.key});
  }
  void ExpectAllArrives() {
    ASSERT_TRUE(bed_.RunUntil([&] { return a_.send_ring.Peek() != nullptr; }));
    uroce_cqe cqe;
    ASSERT_TRUE(a_.PollSend(cqe));
    EXPECT_EQ(cqe.status, 0);
    EXPECT_EQ(memcmp(target_.data(), source_.data(), kBytes), 0);
  }
  void SetDestination(Endpoint& endpoint, const Mac& mac) {
    bed_.worker->RewritePaths([&](const QueuePair& queue_pair, Path& path) {
      if (&queue_pair != endpoint.qp.get()) return false;
      path.destination_mac = mac;
      return true;
    });
  }
  static Mac Address(const rte_mbuf* frame, size_t offset) {
    Mac mac;
    memcpy(mac.data(), rte_pktmbuf_mtod_offset(frame, const uint8_t*, offset), mac.size());
    return mac;
  }

  Testbed bed_;
  Endpoint& a_ = bed_.AddEndpoint(0);
  Endpoint& b_ = bed_.AddEndpoint(1);
  std::vector<uint8_t> source_ = Pattern(kBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& to_ = bed_.Register(target_.data(), kBytes, kAllAccess, MrMode::kMapped);
};

TEST_F(WorkerPathsTest, NewMacOfADeviceHoldsAtBothEndsInTheMiddleOfATransfer) {
  PostWrite();
  bed_.Turn();
  Mac sent_to{}, sent_from{};
  bed_.ports[1].filter = [&](rte_mbuf* frame) { return sent_to = Address(frame, 0), true; };
  bed_.ports[0].filter = [&](rte_mbuf* frame) { return sent_from = Address(frame, 6), true; };
  bed_.workers->ChangeMac(*bed_.devices[0], kOther);
  ExpectAllArrives();
  EXPECT_EQ(bed_.devices[0]->mac, kOther);
  EXPECT_EQ(sent_from, kOther);
  EXPECT_EQ(sent_to, kOther) << "the peer's answers follow";
}

TEST_F(WorkerPathsTest, QueuePairWaitsOutAWrongMacAndGoesOnWithTheRightOne) {
  const Mac right = a_.qp->path().destination_mac;
  PostWrite();
  SetDestination(a_, kOther);
  for (int i = 0; i < 50; ++i) bed_.Turn();
  EXPECT_EQ(a_.send_ring.Peek(), nullptr);
  EXPECT_GT(bed_.devices[1]->counters(0).rx_not_roce.load(), 0u);
  SetDestination(a_, right);
  ExpectAllArrives();
}

TEST_F(WorkerPathsTest, PathToTheOwnMacStaysInTheDevice) {
  Endpoint& c = bed_.AddEndpoint(0);
  Endpoint& d = bed_.AddEndpoint(0);
  bed_.Connect(c, d);
  bed_.workers->ChangeMac(*bed_.devices[0], kOther);
  c.PostSend({.opcode = kWrite,
              .wr_id = 2,
              .list = {Testbed::Sge(from_, 0, 100)},
              .remote_addr = to_.iova,
              .rkey = to_.key});
  ASSERT_TRUE(bed_.RunUntil([&] { return c.send_ring.Peek() != nullptr; }));
  EXPECT_EQ(bed_.ports[0].sent, 0u);
}

TEST_F(WorkerPathsTest, OnlyQueuePairsWithAnAddressVectorAreShown) {
  bed_.AddEndpoint(0);
  int shown = 0;
  bed_.worker->RewritePaths([&](const QueuePair&, Path&) { return ++shown, false; });
  EXPECT_EQ(shown, 2);
}

bool Agreed(const Endpoint& endpoint) { return endpoint.qp->core().attributes().selective_repeat; }

TEST_F(WorkerPathsTest, ConnectionsAreToldWhatTheirPeerAgreesTo) {
  Endpoint& c = bed_.AddEndpoint(0);
  Endpoint& d = bed_.AddEndpoint(1);
  bed_.Connect(c, d);
  bed_.AddEndpoint(0);  // Without an address vector: it is not shown.
  int shown = 0;
  const auto tell = [&](const Endpoint& which, bool agreed) {
    shown = 0;
    bed_.worker->SetSelectiveRepeat([&](const QueuePair& queue_pair) -> std::optional<bool> {
      ++shown;
      if (&queue_pair != which.qp.get()) return std::nullopt;
      return agreed;
    });
  };
  tell(a_, true);
  EXPECT_EQ(shown, 4);
  EXPECT_TRUE(Agreed(a_));
  EXPECT_FALSE(Agreed(b_));
  EXPECT_FALSE(Agreed(c));
  tell(a_, false);
  EXPECT_FALSE(Agreed(a_));
}

}  // namespace
}  // namespace uroce::datapath
