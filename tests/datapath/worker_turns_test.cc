// SPDX-License-Identifier: Apache-2.0
// Who gets a turn, who waits, and what a wait must not disturb.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "pipeline/datapath/copy_helper.h"
#include "pipeline/datapath/parked_work.h"
#include "tests/datapath/testbed.h"

namespace uroce::datapath {
namespace {

constexpr uint8_t kWrite = 0;
constexpr uint8_t kRead = 4;

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
  std::pair<Endpoint*, Endpoint*> Pair() {
    Endpoint& a = bed_.AddEndpoint(0);
    Endpoint& b = bed_.AddEndpoint(1);
    bed_.Connect(a, b);
    return {&a, &b};
  }

  Testbed bed_;
  std::vector<uint8_t> source_ = Pattern(kBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& to_ = bed_.Register(target_.data(), kBytes, kAllAccess, MrMode::kMapped);
};

TEST_F(WorkerTurnsTest, QueuePairsShareBytesNotPackets) {
  bed_.attributes.path_mtu_bytes = 4096;
  Endpoint* large = Pair().first;
  bed_.attributes.path_mtu_bytes = 1024;
  Endpoint* small = Pair().first;
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
  for (int i = 0; i < 10; ++i) crowd.push_back(Pair().first);
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
  auto [a, b] = Pair();
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

TEST_F(WorkerTurnsTest, AFullPortHoldsBackAndLosesNothing) {
  auto [a, b] = Pair();
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

TEST_F(WorkerTurnsTest, RetriesEndWhenThePeerIsGone) {
  auto [a, b] = Pair();
  bed_.ports[0].filter = [](rte_mbuf*) { return false; };
  PostWrite(*a, 8, 1);
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a->PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 12) << "IBV_WC_RETRY_EXC_ERR";
  EXPECT_EQ(bed_.ports[0].sent, 8u) << "once, and retry_count times again";
}

TEST_F(WorkerTurnsTest, AFullEventPipeIsTriedAgain) {
  auto [a, b] = Pair();
  const uroce_async_record other{};
  while (write(a->async[1], &other, sizeof(other)) > 0) {
  }
  a->page->sq_produced.value = 1000;
  EXPECT_FALSE(rings::Ring(bed_.doorbells[0], a->slot));
  bed_.Settle();
  EXPECT_EQ(a->qp->async_records(), 0u);
  std::vector<uint8_t> drain(1 << 20);
  ASSERT_GT(read(a->async[0], drain.data(), drain.size()), 0);
  bed_.Turn(Nanos(2'000'000));
  EXPECT_EQ(a->qp->async_records(), 1u);
}

/// Memory that only the helper reaches.
class WorkerParkedTest : public WorkerTurnsTest {
 protected:
  WorkerParkedTest() { bed_.StartCopyHelper(); }
  MemoryRegion& copied_ = bed_.Register(target_.data(), kBytes, kAllAccess, MrMode::kCopied);
};

TEST_F(WorkerParkedTest, MappedAndCopiedSegmentsMixInOneMessage) {
  auto [a, b] = Pair();
  std::vector<uint8_t> result(300'000);
  MemoryRegion mixed;
  mixed.key = 0x7700;
  mixed.pd = kTestPd;
  mixed.access = kAllAccess;
  mixed.iova = reinterpret_cast<uint64_t>(result.data());
  mixed.length_bytes = result.size();
  // Odd lengths, so that packets straddle segments.
  uint64_t at = 0;
  for (uint64_t i = 0; at < mixed.length_bytes; ++i) {
    const uint64_t length = std::min<uint64_t>(700 + i * 131, mixed.length_bytes - at);
    mixed.segments.push_back({.iova = mixed.iova + at,
                              .length_bytes = length,
                              .mode = i % 2 == 0 ? MrMode::kMapped : MrMode::kCopied,
                              .mapped = result.data() + at,
                              .app_addr = mixed.iova + at});
    at += length;
  }
  ASSERT_TRUE(bed_.keys.Publish(&mixed));
  a->PostSend({.opcode = kWrite,
               .wr_id = 1,
               .list = {Testbed::Sge(from_, 0, 300'000)},
               .remote_addr = mixed.iova,
               .rkey = mixed.key});
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a->PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 0);
  EXPECT_EQ(memcmp(result.data(), source_.data(), result.size()), 0);
  a->PostSend({.opcode = kRead,
               .wr_id = 2,
               .list = {Testbed::Sge(to_, 0, 300'000)},
               .remote_addr = mixed.iova,
               .rkey = mixed.key});
  ASSERT_TRUE(bed_.RunUntil([&] { return a->PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 0);
  EXPECT_EQ(memcmp(target_.data(), source_.data(), 300'000), 0);
  bed_.keys.Unpublish(&mixed);
}

TEST_F(WorkerParkedTest, AcknowledgementsDoNotWaitForThePacketsBehind) {
  auto [a, b] = Pair();
  a->PostSend({.opcode = kWrite,
               .wr_id = 1,
               .list = {Testbed::Sge(from_, 0, kBytes)},
               .remote_addr = copied_.iova,
               .rkey = copied_.key});
  uint64_t sent_while_others_waited = 0;
  uint64_t sent = 0;
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] {
    if (b->qp->parked().waiting != 0) sent_while_others_waited += bed_.ports[1].sent - sent;
    sent = bed_.ports[1].sent;
    return a->PollSend(cqe);
  }));
  EXPECT_EQ(cqe.status, 0);
  EXPECT_GT(sent_while_others_waited, 0u);
}

TEST_F(WorkerParkedTest, MemoryThatIsGoneIsAnAccessError) {
  auto [a, b] = Pair();
  void* hole = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  MemoryRegion& gone = bed_.Register(hole, 4096, kAllAccess, MrMode::kCopied);
  munmap(hole, 4096);
  a->PostSend({.opcode = kWrite,
               .wr_id = 1,
               .list = {Testbed::Sge(from_, 0, 64)},
               .remote_addr = gone.iova,
               .rkey = gone.key});
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a->PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 10) << "IBV_WC_REM_ACCESS_ERR";
  auto [c, d] = Pair();
  c->PostSend({.opcode = kWrite,
               .wr_id = 2,
               .list = {Testbed::Sge(gone, 0, 64)},
               .remote_addr = to_.iova,
               .rkey = to_.key});
  ASSERT_TRUE(bed_.RunUntil([&] { return c->PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 4) << "IBV_WC_LOC_PROT_ERR";
}

TEST_F(WorkerParkedTest, ModifyWaitsForTheCopyAndIsNotLost) {
  auto [a, b] = Pair();
  a->PostSend({.opcode = kWrite,
               .wr_id = 1,
               .list = {Testbed::Sge(from_, 0, 50'000)},
               .remote_addr = copied_.iova,
               .rkey = copied_.key});
  while (!bed_.Copying()) bed_.Turn();
  bed_.Modify(*b, transport::QpState::kErr);
  EXPECT_EQ(b->page_state(), 6u);
  EXPECT_EQ(b->qp->state(), transport::QpState::kErr);
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a->PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 12) << "the peer answers no more";
  EXPECT_EQ(b->qp->core().state(), transport::QpState::kErr);
}

TEST_F(WorkerParkedTest, RemovalDoesNotWaitForTheCopy) {
  auto [a, b] = Pair();
  a->PostSend({.opcode = kWrite,
               .wr_id = 1,
               .list = {Testbed::Sge(copied_, 0, 50'000)},
               .remote_addr = to_.iova,
               .rkey = to_.key});
  while (!bed_.Copying()) bed_.Turn();
  bed_.worker->Run([&] { bed_.worker->RemoveQueuePair(b->qp.get()); });
  bed_.worker->Run([&] { bed_.worker->RemoveQueuePair(a->qp.get()); });
  bed_.endpoints.pop_back();
  bed_.endpoints.pop_back();
  const uint64_t begun = bed_.session->copies_begun();
  EXPECT_GT(begun, 0u);
  while (!bed_.session->CopiesDone(begun)) sched_yield();
  bed_.Settle();
}

}  // namespace
}  // namespace uroce::datapath
