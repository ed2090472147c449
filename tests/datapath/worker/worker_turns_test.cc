// SPDX-License-Identifier: Apache-2.0
// Who gets a turn, and who waits.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

class WorkerTurnsTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 1 << 20;

  void PostWrite(Endpoint& endpoint, uint32_t length, uint64_t wr_id = 0) {
    endpoint.PostSend({.opcode = kWrite,
                       .wr_id = wr_id,
                       .list = {Testbed::Sge(from_, 0, length)},
                       .remote_addr = to_.iova,
                       .rkey = to_.key});
  }
  Testbed bed_;
  std::vector<uint8_t> source_ = Pattern(kBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& to_ = bed_.Register(target_.data(), kBytes, kAllAccess, MrMode::kMapped);
};

TEST_F(WorkerTurnsTest, QueuePairsShareBytesNotPackets) {
  bed_.attributes.path_mtu_bytes = 4096;
  Endpoint* large = bed_.AddPair().first;
  bed_.attributes.path_mtu_bytes = 1024;
  Endpoint* small = bed_.AddPair().first;
  for (int i = 0; i < 60; ++i) {
    PostWrite(*large, 1 << 20);
    PostWrite(*small, 1 << 20);
  }
  for (int turn = 0; turn < 300; ++turn) bed_.Turn();
  const auto ratio = static_cast<double>(large->qp->traffic().sent_bytes) /
                     static_cast<double>(small->qp->traffic().sent_bytes);
  EXPECT_GT(small->qp->traffic().sent_bytes, 1'000'000u);
  EXPECT_NEAR(ratio, 1.0, 0.1);
}

TEST_F(WorkerTurnsTest, ManyQueuePairsOfOneSessionDoNotStarveAnother) {
  auto doorbells = std::make_unique<uroce_doorbells>();
  Session other(2, {{.doorbells = doorbells.get()}});
  bed_.worker->Run([&] { bed_.worker->AddSession(&other); });
  std::vector<Endpoint*> crowd;
  for (int i = 0; i < 10; ++i) crowd.push_back(bed_.AddPair().first);
  Endpoint lone(&other, bed_.devices[0].get(), Qpn(0x900), 0, {});
  Endpoint* peer = &bed_.AddEndpoint(1);
  bed_.worker->Run([&] { bed_.worker->AddQueuePair(lone.qp.get()); });
  bed_.Connect(lone, *peer);
  for (Endpoint* endpoint : crowd) PostWrite(*endpoint, 1 << 20);
  PostWrite(lone, 1 << 20);
  for (int turn = 0; turn < 30; ++turn) bed_.Turn();
  uint64_t crowd_bytes = 0;
  for (Endpoint* endpoint : crowd) crowd_bytes += endpoint->qp->traffic().sent_bytes;
  EXPECT_GT(lone.qp->traffic().sent_bytes * 10, crowd_bytes * 8) << "half of the port is its own";
  bed_.worker->Run([&] {
    bed_.worker->RemoveQueuePair(lone.qp.get());
    bed_.worker->RemoveSession(&other);
  });
}

TEST_F(WorkerTurnsTest, QueuePairsThatShareADoorbellAllSend) {
  auto [a, b] = bed_.AddPair();
  Endpoint shares(bed_.session.get(), bed_.devices[0].get(), Qpn(0x901), a->slot, {});
  Endpoint* peer = &bed_.AddEndpoint(1);
  bed_.worker->Run([&] { bed_.worker->AddQueuePair(shares.qp.get()); });
  bed_.Connect(shares, *peer);
  PostWrite(*a, 8, 1);
  PostWrite(shares, 8, 2);
  bed_.Settle();
  uroce_cqe cqe;
  EXPECT_TRUE(a->PollSend(cqe));
  EXPECT_TRUE(shares.PollSend(cqe));
  bed_.worker->Run([&] { bed_.worker->RemoveQueuePair(shares.qp.get()); });
  PostWrite(*a, 8, 3);
  bed_.Settle();
  EXPECT_TRUE(a->PollSend(cqe)) << "the rest of the chain still hears the bell";
}

/// The most frames that one turn sends for one queue pair, over ports with `limit`.
uint64_t FramesOfATurn(drivers::TurnLimit limit, bool to_self = false) {
  std::array<TestPort, 2> ports;
  for (int i = 0; i < 2; ++i) {
    ports[i].peer = &ports[1 - i];
    ports[i].limit = limit;
  }
  Testbed bed({&ports[0], &ports[1]});
  std::vector<uint8_t> bytes(1 << 20);
  const MemoryRegion& region =
      bed.Register(bytes.data(), bytes.size(), kAllAccess, MrMode::kMapped);
  Endpoint& a = bed.AddEndpoint(0);
  Endpoint& b = bed.AddEndpoint(to_self ? 0 : 1);
  bed.Connect(a, b);
  for (int i = 0; i < 4; ++i) {
    a.PostSend({.opcode = kWrite,
                .list = {Testbed::Sge(region, 0, 1 << 20)},
                .remote_addr = region.iova,
                .rkey = region.key});
  }
  uint64_t most = 0;
  for (int turn = 0; turn < 100; ++turn) {
    const uint64_t before = a.qp->traffic().sent_packets;
    bed.Turn();
    most = std::max(most, a.qp->traffic().sent_packets - before);
  }
  return most;
}

TEST(TurnLimitTest, ATurnSendsAsManyFramesAsThePortTakes) {
  EXPECT_EQ(FramesOfATurn({}), kBurst);
  EXPECT_EQ(FramesOfATurn({.frames = 64}), 64u);
}

TEST(TurnLimitTest, ATurnSendsAsManyBytesAsThePortTakes) {
  constexpr uint32_t kFrameBytes = 14 + 20 + 8 + 12 + 1024 + 4;  // A MIDDLE.
  EXPECT_EQ(FramesOfATurn({.frames = 64, .bytes = 40 * kFrameBytes}), 40u);
  EXPECT_EQ(FramesOfATurn({.frames = 64, .bytes = 39 * kFrameBytes + 1}), 40u);
}

// A turn receives a burst of them, so that more would wait longer and longer.
TEST(TurnLimitTest, FramesToTheDeviceItselfDoNotPileUp) {
  EXPECT_LE(FramesOfATurn({.frames = 64}, /*to_self=*/true), 64u);
}

TEST_F(WorkerTurnsTest, AFullPortHoldsBackAndLosesNothing) {
  auto [a, b] = bed_.AddPair();
  bed_.ports[0].room = 0;
  PostWrite(*a, 100'000, 1);
  for (int i = 0; i < 20; ++i) bed_.Turn();
  EXPECT_EQ(bed_.ports[0].sent, 0u);
  bed_.ports[0].room = 1;
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a->PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 0);
  EXPECT_EQ(memcmp(target_.data(), source_.data(), 100'000), 0);
}

/// A queue pair has a message in memory that its full port has kept it from acknowledging.
class AcknowledgementTest : public WorkerTurnsTest {
 protected:
  void SetUp() override {
    bed_.ports[1].room = 0;
    PostWrite(*pair_.first, 8, 1);
    for (int i = 0; i < 20; ++i) bed_.Turn();
    ASSERT_EQ(target_[0], source_[0]);
    ASSERT_EQ(bed_.ports[1].sent, 0u);
  }
  /// The status of the peer's work, once it has one.
  uint32_t Ended() {
    uroce_cqe cqe{};
    EXPECT_TRUE(bed_.RunUntil([&] { return pair_.first->PollSend(cqe); }));
    return cqe.status;
  }
  std::pair<Endpoint*, Endpoint*> pair_ = bed_.AddPair();
};

TEST_F(AcknowledgementTest, ItLeavesBeforeItsQueuePairStops) {
  bed_.ports[1].room = 8;
  bed_.Modify(*pair_.second, transport::QpState::kErr);
  EXPECT_EQ(Ended(), 0u);
  EXPECT_EQ(bed_.ports[1].sent, 1u);
}

TEST_F(AcknowledgementTest, ItLeavesBeforeItsQueuePairIsReset) {
  bed_.ports[1].room = 8;
  bed_.Modify(*pair_.second, transport::QpState::kReset);
  EXPECT_EQ(Ended(), 0u);
}

TEST_F(AcknowledgementTest, ItLeavesBeforeItsQueuePairEnds) {
  bed_.ports[1].room = 8;
  bed_.worker->Run([&] { bed_.worker->RemoveQueuePair(pair_.second->qp.get()); });
  EXPECT_EQ(Ended(), 0u);
  bed_.worker->Run([&] { bed_.worker->AddQueuePair(pair_.second->qp.get()); });
}

TEST_F(AcknowledgementTest, WhereThePortIsFullStillNothingWaitsForIt) {
  bed_.Modify(*pair_.second, transport::QpState::kErr);
  bed_.ports[1].room = 8;
  EXPECT_EQ(Ended(), 12u) << "IBV_WC_RETRY_EXC_ERR";
  EXPECT_EQ(bed_.ports[1].sent, 0u);
}

/// Many queue pairs send to a completion queue with hardly any room.
class OverflowTest : public WorkerTurnsTest {
 protected:
  static constexpr int kQueuePairs = 500;
  static constexpr uint32_t kMostInATurn = 64;
  static constexpr uint32_t kError = 6;

  OverflowTest() {
    bed_.Connect(first_, bed_.AddEndpoint(1));
    const Endpoint::Limits limits{.sq_depth = 2,
                                  .rq_depth = 2,
                                  .cq_depth = 2,
                                  .has_events = false,
                                  .send_ring = first_.qp->config().send_ring};
    for (int i = 0; i < kQueuePairs; ++i) {
      crowd_.push_back(&bed_.AddEndpoint(0, limits));
      bed_.Modify(*crowd_.back(), transport::QpState::kInit);
    }
    bed_.Settle();
    for (uint64_t i = 0; i < 6; ++i) PostWrite(first_, 8, i);
  }
  uint32_t Failed() const {
    return static_cast<uint32_t>(std::ranges::count(crowd_, kError, &Endpoint::page_state));
  }
  Endpoint& first_ = bed_.AddEndpoint(0, {.cq_depth = 4});
  std::vector<Endpoint*> crowd_;
};

TEST_F(OverflowTest, ItsQueuePairsFailSomeInATurn) {
  for (uint32_t before = 0, failed = 0; failed < kQueuePairs; before = failed) {
    bed_.Turn(Nanos(10'000));
    failed = Failed();
    ASSERT_LE(failed - before, kMostInATurn);
    ASSERT_LT(bed_.now, Nanos(60'000'000'000)) << failed;
  }
  EXPECT_EQ(first_.page_state(), kError);
}

TEST_F(OverflowTest, QueuePairsThatGoMeanwhileHoldNoOtherUp) {
  ASSERT_TRUE(bed_.RunUntil([this] { return Failed() != 0; }));
  std::vector<Endpoint*> gone;
  for (size_t i = 0; i < crowd_.size(); i += 2) gone.push_back(crowd_[i]);
  bed_.worker->Run([&] {
    for (const Endpoint* endpoint : gone) bed_.worker->RemoveQueuePair(endpoint->qp.get());
  });
  const auto all_failed = [this] {
    for (size_t i = 1; i < crowd_.size(); i += 2) {
      if (crowd_[i]->page_state() != kError) return false;
    }
    return true;
  };
  EXPECT_LT(Failed(), crowd_.size() / 2);
  EXPECT_TRUE(bed_.RunUntil(all_failed));
  bed_.worker->Run([&] {
    for (const Endpoint* endpoint : gone) bed_.worker->AddQueuePair(endpoint->qp.get());
  });
}

TEST_F(WorkerTurnsTest, RetriesEndWhenThePeerIsGone) {
  auto [a, b] = bed_.AddPair();
  bed_.ports[0].filter = [](rte_mbuf*) { return false; };
  PostWrite(*a, 8, 1);
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a->PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 12) << "IBV_WC_RETRY_EXC_ERR";
  EXPECT_EQ(bed_.ports[0].sent, 8u) << "once, and retry_count times again";
}

TEST_F(WorkerTurnsTest, AFullEventSocketIsTriedAgain) {
  auto [a, b] = bed_.AddPair();
  a->events->Fill();
  a->page->sq_produced.value = 1000;
  EXPECT_FALSE(rings::Ring(bed_.doorbells[0], a->slot));
  bed_.Settle();
  EXPECT_EQ(a->qp->reports().async_records(), 0u);
  a->events->Drain();
  bed_.Turn(Nanos(2'000'000));
  EXPECT_EQ(a->qp->reports().async_records(), 1u);
}

}  // namespace
}  // namespace uroce::datapath
