// SPDX-License-Identifier: Apache-2.0
// Programs and peers that do not keep to the rules: they harm themselves at most.
#include <gtest/gtest.h>

#include <random>

#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kError = 6;

class WorkerHostileTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 64 * 1024;

  WorkerHostileTest() { bed_.Connect(a_, b_); }

  Endpoint::Send SmallWrite(uint64_t wr_id) {
    return {.opcode = kWrite,
            .wr_id = wr_id,
            .list = {Testbed::Sge(from_, 0, 64)},
            .remote_addr = to_.iova,
            .rkey = to_.key};
  }
  /// A second pair of ends still works.
  void ExpectOthersUndisturbed() {
    Endpoint& c = bed_.AddEndpoint(0);
    Endpoint& d = bed_.AddEndpoint(1);
    bed_.Connect(c, d);
    c.PostSend(SmallWrite(1));
    uroce_cqe cqe;
    ASSERT_TRUE(bed_.RunUntil([&] { return c.PollSend(cqe); }));
    EXPECT_EQ(cqe.status, 0);
  }
  DeviceCounters& counters(int device) { return bed_.devices[device]->counters(0); }

  Testbed bed_;
  Endpoint& a_ = bed_.AddEndpoint(0);
  Endpoint& b_ = bed_.AddEndpoint(1);
  std::vector<uint8_t> source_ = Pattern(kBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& to_ = bed_.Register(target_.data(), kBytes, kAllAccess, MrMode::kMapped);
};

TEST_F(WorkerHostileTest, ImpossibleSendIndexPutsTheQueuePairInError) {
  a_.page->sq_produced.value = 65;  // Of 64.
  EXPECT_FALSE(rings::Ring(bed_.doorbells[0], a_.slot));
  bed_.Settle();
  EXPECT_EQ(a_.page_state(), kError);
  EXPECT_EQ(counters(0).sq_corrupt.load(), 1u);
  const std::optional<uroce_event_record> record = a_.events->Read();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->event_type, 1u) << "IBV_EVENT_QP_FATAL";
  EXPECT_EQ(record->element, 3u);
  EXPECT_EQ(a_.qp->reports().async_records(), 1u);
  ExpectOthersUndisturbed();
}

TEST_F(WorkerHostileTest, SendIndexThatGoesBackIsImpossibleToo) {
  a_.PostSend(SmallWrite(1));
  bed_.Settle();
  a_.page->sq_produced.value = 0;
  EXPECT_FALSE(rings::Ring(bed_.doorbells[0], a_.slot));
  bed_.Settle();
  EXPECT_EQ(a_.page_state(), kError);
}

TEST_F(WorkerHostileTest, ImpossibleReceiveIndexPutsTheQueuePairInError) {
  b_.page->rq_produced.value = 0x8000'0000;
  a_.PostSend({.opcode = kSend, .wr_id = 1, .list = {Testbed::Sge(from_, 0, 8)}});
  bed_.Settle();
  EXPECT_EQ(b_.page_state(), kError);
  EXPECT_EQ(counters(1).rq_corrupt.load(), 1u);
  ExpectOthersUndisturbed();
}

TEST_F(WorkerHostileTest, AllDoorbellsOfSlotsWithoutQueuePairs) {
  for (uint32_t word = 0; word < UROCE_DOORBELL_WORDS; ++word) {
    bed_.doorbells[0].words[word].value = UINT64_MAX;
  }
  for (uint64_t& summary : bed_.doorbells[0].summary) summary = UINT64_MAX;
  bed_.Settle();
  ExpectOthersUndisturbed();
}

// What is flushed shows what a turn has taken.
TEST_F(WorkerHostileTest, AllDoorbellsAtOnceTakeManyTurns) {
  constexpr uint32_t kQueuePairs = 1024;
  constexpr uint32_t kWorks = 4;
  constexpr uint32_t kMostOfATurn = 128;
  const Endpoint::Limits limits{
      .sq_depth = 4, .rq_depth = 4, .cq_depth = 8, .session = &bed_.AddSession()};
  std::vector<Endpoint*> all;
  for (uint32_t i = 0; i < kQueuePairs; ++i) {
    all.push_back(&bed_.AddEndpoint(0, limits));
    bed_.Modify(*all.back(), transport::QpState::kErr);
  }
  bed_.Settle();
  for (Endpoint* each : all) {
    for (uint32_t i = 0; i < kWorks; ++i) each->PostSend(SmallWrite(i));
  }
  uint32_t flushed = 0;
  for (uint32_t turn = 0; flushed < kQueuePairs * kWorks && turn < 1000; ++turn) {
    bed_.Turn();
    const uint32_t before = flushed;
    uroce_cqe cqe;
    for (Endpoint* each : all) {
      while (each->PollSend(cqe)) ++flushed;
    }
    ASSERT_LE(flushed - before, kMostOfATurn);
  }
  EXPECT_EQ(flushed, kQueuePairs * kWorks) << "none is forgotten";
  ExpectOthersUndisturbed();
}

TEST_F(WorkerHostileTest, RandomBytesInTheSendRingNeverReachMemoryTheyMayNot) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 300; ++round) {
    Endpoint& c = bed_.AddEndpoint(0);
    Endpoint& d = bed_.AddEndpoint(1);
    bed_.Connect(c, d);
    for (uint8_t& byte : c.sq) byte = static_cast<uint8_t>(random());
    // Half of them come close to being right.
    for (uint32_t i = 0; i < 8; ++i) {
      uint8_t* slot = c.sends.Slot(i);
      uroce_send_wqe header;
      memcpy(&header, slot, sizeof(header));
      header.opcode = static_cast<uint8_t>(random() % 12);
      if (random() % 2 == 0) header.num_sge = static_cast<uint8_t>(random() % 5);
      if (random() % 2 == 0) header.rkey = from_.key;
      memcpy(slot, &header, sizeof(header));
    }
    c.page->sq_produced.value = 8;
    EXPECT_FALSE(rings::Ring(bed_.doorbells[0], c.slot));
    bed_.Settle();
    uroce_cqe cqe;
    int completions = 0;
    while (c.PollSend(cqe)) ++completions;
    EXPECT_LE(completions, 8);
    bed_.worker->Run([&] { bed_.worker->RemoveQueuePair(d.qp.get()); });
    bed_.worker->Run([&] { bed_.worker->RemoveQueuePair(c.qp.get()); });
    bed_.endpoints.pop_back();
    bed_.endpoints.pop_back();
  }
  EXPECT_EQ(source_, Pattern(kBytes, 1));
  ExpectOthersUndisturbed();
}

TEST_F(WorkerHostileTest, TooManySgesIsALocalError) {
  uroce_send_wqe header{};
  header.wr_id = 4;
  header.num_sge = 5;  // Of 4.
  rings::WriteSendHeader(a_.sends.Slot(0), header);
  a_.sends.Advance();
  a_.RingBell();
  bed_.Settle();
  uroce_cqe cqe;
  ASSERT_TRUE(a_.PollSend(cqe));
  EXPECT_EQ(cqe.wr_id, 4u);
  EXPECT_EQ(cqe.status, 2) << "IBV_WC_LOC_QP_OP_ERR";
}

TEST_F(WorkerHostileTest, OverflownCqPutsItsQueuePairsInError) {
  Endpoint& c = bed_.AddEndpoint(0, {.cq_depth = 4});
  Endpoint& d = bed_.AddEndpoint(1);
  bed_.Connect(c, d);
  for (uint64_t i = 0; i < 6; ++i) c.PostSend(SmallWrite(i));
  bed_.Settle();
  EXPECT_EQ(c.page_state(), kError);
  EXPECT_NE(c.send_page->error.value, 0u);
  EXPECT_EQ(counters(0).cq_overflow.load(), 1u);
  const std::optional<uroce_event_record> record = c.events->Read();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->event_type, 0u) << "IBV_EVENT_CQ_ERR";
  EXPECT_EQ(record->element, 1u);
  ExpectOthersUndisturbed();
}

TEST_F(WorkerHostileTest, ErrorStateFlushesWhatIsPostedLater) {
  for (uint64_t i = 0; i < 40; ++i) a_.PostReceive(i, {});
  bed_.Modify(a_, transport::QpState::kErr);
  bed_.Settle();
  EXPECT_EQ(a_.page_state(), kError);
  for (uint64_t i = 0; i < 50; ++i) a_.PostSend(SmallWrite(i));
  for (uint64_t i = 40; i < 60; ++i) a_.PostReceive(i, {});
  bed_.Settle();
  uroce_cqe cqe;
  for (uint64_t i = 0; i < 60; ++i) {
    ASSERT_TRUE(a_.PollReceive(cqe)) << i;
    EXPECT_EQ(cqe.wr_id, i);
    EXPECT_EQ(cqe.status, 5) << "IBV_WC_WR_FLUSH_ERR";
  }
  for (uint64_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(a_.PollSend(cqe)) << i;
    EXPECT_EQ(cqe.wr_id, i);
    EXPECT_EQ(cqe.status, 5);
  }
}

// Each way of being wrong has a counter, and nothing else happens.
TEST_F(WorkerHostileTest, WrongPacketsAreCountedDrops) {
  struct Case {
    size_t offset;
    uint8_t flip;
    std::atomic<uint64_t>& counter;
  };
  DeviceCounters& counts = counters(1);
  // Ethernet 14, IPv4 20, UDP 8, then BTH: opcode 42, P_Key 44, QPN 47, payload behind.
  const Case cases[] = {{0, 0x02, counts.rx_not_roce},           {44, 0x01, counts.rx_bad_pkey},
                        {49, 0x80, counts.rx_unknown_qpn},       {42, 0x20, counts.rx_bad_opcode},
                        {80, 0x01, counts.rx_icrc_encapsulated}, {36, 0x01, counts.rx_not_roce}};
  for (const Case& wrong : cases) {
    const uint64_t before = wrong.counter.load();
    bool done = false;
    bed_.ports[0].filter = [&](rte_mbuf* frame) {
      if (!done) rte_pktmbuf_mtod(frame, uint8_t*)[wrong.offset] ^= wrong.flip;
      done = true;
      return true;
    };
    a_.PostSend(SmallWrite(1));
    bed_.Settle();
    EXPECT_EQ(wrong.counter.load(), before + 1) << "offset " << wrong.offset;
    uroce_cqe cqe;
    EXPECT_FALSE(a_.PollSend(cqe)) << "offset " << wrong.offset;
    // The timer repairs it.
    ASSERT_TRUE(bed_.RunUntil([&] { return a_.PollSend(cqe); }));
    EXPECT_EQ(cqe.status, 0);
  }
}

TEST_F(WorkerHostileTest, RandomFramesOnlyCount) {
  std::mt19937 random(4);
  for (int i = 0; i < 2000; ++i) {
    rte_mbuf* frame = rte_pktmbuf_alloc(TestPool());
    const auto length = static_cast<uint16_t>(random() % 300);
    auto* bytes = reinterpret_cast<uint8_t*>(rte_pktmbuf_append(frame, length));
    for (uint16_t at = 0; at < length; ++at) bytes[at] = static_cast<uint8_t>(random());
    bed_.ports[1].arrived.push_back(frame);
    bed_.Turn();
  }
  const DeviceCounters& counts = counters(1);
  EXPECT_EQ(counts.port_rcv_packets.load(), 2000u);
  EXPECT_EQ(counts.rx_not_roce.load() + counts.rx_malformed.load() + counts.rx_bad_opcode.load(),
            2000u);
  ExpectOthersUndisturbed();
}

}  // namespace
}  // namespace uroce::datapath
