// SPDX-License-Identifier: Apache-2.0
// Queue pairs that take their receives from a shared queue.
#include <gtest/gtest.h>

#include "pipeline/datapath/queue/work_queues.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kLastWqeReached = 16;

/// Two senders on one side; on the other, two queue pairs that share a queue of depth 16.
class SharedReceiveTest : public testing::Test {
 protected:
  static constexpr uint32_t kDepth = 16;
  static constexpr uint32_t kSlotBytes = rings::ReceiveSlotBytes(2);
  static constexpr size_t kBytes = 64 * 1024;

  SharedReceiveTest() {
    bed_.Connect(a_, b_);
    bed_.Connect(c_, d_);
  }
  ~SharedReceiveTest() override { bed_.RemoveEndpoints(); }

  void Post(uint64_t wr_id, const uroce_sge& sge) {
    uint8_t* tail = rings::WriteReceiveHeader(producer_.Slot(producer_.index()), wr_id, 1);
    rings::WriteSge(tail, 0, sge.addr, sge.length, sge.lkey);
    producer_.Advance();
    producer_.Publish();
  }
  static uint32_t ReadEvent(const Endpoint& endpoint) {
    const std::optional<uroce_event_record> record = endpoint.events->Read();
    return record ? record->event_type : UINT32_MAX;
  }

  std::unique_ptr<uroce_srq_page> page_ = std::make_unique<uroce_srq_page>();
  std::vector<uint8_t> slots_ = std::vector<uint8_t>(size_t{kDepth} * kSlotBytes);
  rings::WorkQueueProducer producer_{
      {.slots = slots_.data(), .depth = kDepth, .slot_bytes = kSlotBytes}, &page_->produced};
  SharedReceiveQueue shared_{
      {.pd = kTestPd,
       .page = page_.get(),
       .layout = {.slots = slots_.data(), .depth = kDepth, .slot_bytes = kSlotBytes},
       .max_sge = 2}};
  Testbed bed_;
  Endpoint& a_ = bed_.AddEndpoint(0);
  Endpoint& b_ = bed_.AddEndpoint(1, {.shared = &shared_});
  Endpoint& c_ = bed_.AddEndpoint(0);
  Endpoint& d_ = bed_.AddEndpoint(1, {.shared = &shared_});
  std::vector<uint8_t> source_ = Pattern(kBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& to_ = bed_.Register(target_.data(), kBytes, kAllAccess, MrMode::kMapped);
};

TEST_F(SharedReceiveTest, EachMessageTakesTheNextEntryForEveryQueuePair) {
  Post(1, Testbed::Sge(to_, 0, 5000));
  Post(2, Testbed::Sge(to_, 10'000, 5000));
  c_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 7, 5000)}});
  bed_.Settle();
  a_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 9, 3000)}});
  bed_.Settle();
  uroce_cqe cqe;
  ASSERT_TRUE(d_.PollReceive(cqe));
  EXPECT_EQ(cqe.wr_id, 1u);
  EXPECT_EQ(cqe.flags, UROCE_CQE_RECEIVE | UROCE_CQE_SHARED);
  EXPECT_EQ(cqe.qp_num, d_.qp->qpn().value());
  ASSERT_TRUE(b_.PollReceive(cqe));
  EXPECT_EQ(cqe.wr_id, 2u);
  EXPECT_EQ(memcmp(target_.data(), source_.data() + 7, 5000), 0);
  EXPECT_EQ(memcmp(target_.data() + 10'000, source_.data() + 9, 3000), 0);
}

TEST_F(SharedReceiveTest, AnEmptyQueueIsReceiverNotReadyUntilSomethingIsPosted) {
  a_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 0, 100)}});
  for (int i = 0; i < 10; ++i) bed_.Turn();
  EXPECT_GT(b_.qp->counters().out_of_buffer, 0u);
  Post(1, Testbed::Sge(to_, 0, 100));
  ASSERT_TRUE(bed_.RunUntil([&] { return b_.receive_ring.Peek() != nullptr; }));
}

TEST_F(SharedReceiveTest, AQueuePairInErrorLeavesWhatIsPostedToTheOthers) {
  Post(1, Testbed::Sge(to_, 0, 100));
  bed_.Modify(b_, transport::QpState::kErr);
  bed_.Settle();
  EXPECT_EQ(ReadEvent(b_), kLastWqeReached);
  EXPECT_EQ(page_->consumed.value, 0u);
  c_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 0, 100)}});
  bed_.Settle();
  uroce_cqe cqe;
  EXPECT_TRUE(d_.PollReceive(cqe));
}

TEST_F(SharedReceiveTest, KeysAreThoseOfTheQueuesDomain) {
  to_.pd = kTestPd + 1;
  Post(1, Testbed::Sge(to_, 0, 100));
  a_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 0, 100)}});
  bed_.Settle();
  uroce_cqe cqe;
  ASSERT_TRUE(b_.PollReceive(cqe));
  EXPECT_EQ(cqe.status, kLocProtErr);
}

TEST_F(SharedReceiveTest, AnImpossibleIndexPutsWhoTakesInErrorAlone) {
  page_->produced.value = kDepth + 1;
  a_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 0, 100)}});
  bed_.Settle();
  EXPECT_EQ(b_.page_state(), static_cast<uint32_t>(transport::QpState::kErr));
  EXPECT_EQ(d_.page_state(), static_cast<uint32_t>(transport::QpState::kRts));
}

}  // namespace
}  // namespace uroce::datapath
