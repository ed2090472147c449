// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/effects.h"

#include "tests/datapath/worker/parts/work_parts.h"

namespace uroce::datapath {
namespace {

using transport::Effect;

constexpr uint8_t kNakRemoteAccess = 0x62;

bool IsAck(std::optional<uint8_t> syndrome) { return syndrome && (*syndrome & 0xe0) == 0; }

class EffectsTest : public WorkPartsTest {
 protected:
  ~EffectsTest() override {
    if (frame_ != nullptr) rte_pktmbuf_free(frame_);
  }
  /// Of an atomic on eight bytes from `offset` of the region.
  Effect ReceiveFetchAdd(const MemoryRegion& on, uint64_t offset) {
    packet_.header.opcode = wire::Opcode::kFetchAdd;
    packet_.header.psn = qp_.core().expected_psn();
    packet_.header.atomic = {.va = on.iova + offset, .rkey = Rkey(on.key), .swap_add = 2};
    packet_.payload = {};
    Effect effect;
    EXPECT_EQ(qp_.core().reliable().OnPacket(packet_, time_.now(), effect),
              transport::PacketResult::kAccepted);
    return effect;
  }

  QueuePair& qp_ = *AddConnected().qp;
  std::vector<uint8_t> payload_ = Pattern(1000, 1);
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(2000);
  rte_mbuf* frame_ = NewFrame(payload_);
};

TEST_F(EffectsTest, BytesAreInMappedMemoryBeforeTheyAreAcknowledged) {
  const MemoryRegion& region = Register(qp_, memory_, MrMode::kMapped);
  const Effect effect = ReceiveWrite(qp_, region, frame_);
  EXPECT_EQ(Answer(qp_), std::nullopt);
  EXPECT_TRUE(effects_.Start(qp_, effect, packet_, frame_)) << "the frame is not needed any more";
  EXPECT_TRUE(std::equal(payload_.begin(), payload_.end(), memory_.begin()));
  EXPECT_TRUE(IsAck(Answer(qp_)));
}

TEST_F(EffectsTest, WhatMayNotBeWrittenIsRefusedAndNotWritten) {
  MemoryRegion& region = Register(qp_, memory_, MrMode::kMapped);
  region.access = kLocalWrite | kRemoteRead;
  const Effect effect = ReceiveWrite(qp_, region, frame_);
  EXPECT_TRUE(effects_.Start(qp_, effect, packet_, frame_));
  EXPECT_EQ(memory_, std::vector<uint8_t>(2000));
  EXPECT_EQ(Answer(qp_), kNakRemoteAccess);
}

// The frame holds the bytes until they are in memory that only the helper reaches.
TEST_F(EffectsTest, CopiedMemoryHasTheQueuePairWaitAndTheJobTakeTheFrame) {
  StartHelper(qp_);
  const MemoryRegion& region = Register(qp_, memory_, MrMode::kCopied);
  const Effect effect = ReceiveWrite(qp_, region, frame_);
  EXPECT_FALSE(effects_.Start(qp_, effect, packet_, frame_));
  EXPECT_EQ(qp_.wait(), WaitKind::kEffect);
  EXPECT_EQ(Answer(qp_), std::nullopt);
  std::optional<MoveResult> ended;
  while (!ended) {
    copies_.FinishDue([&](QueuePair&, MoveResult result) { ended = result; });
    sched_yield();
    copies_.TakeFinished([&](QueuePair&, MoveResult result) { ended = result; });
  }
  EXPECT_EQ(qp_.waiting().job->frame, frame_);
  qp_.waiting().job->frame = nullptr;
  qp_.set_wait(WaitKind::kNone);
  effects_.Finish(qp_, effect, *ended, 0);
  EXPECT_TRUE(std::equal(payload_.begin(), payload_.end(), memory_.begin()));
  EXPECT_TRUE(IsAck(Answer(qp_)));
}

TEST_F(EffectsTest, AtomicsChangeEightAlignedBytesAndNoOthers) {
  std::vector<uint64_t> words = {40, 50};
  const MemoryRegion& region = Register(qp_, words, MrMode::kMapped);
  EXPECT_TRUE(effects_.Start(qp_, ReceiveFetchAdd(region, 8), packet_, frame_));
  EXPECT_EQ(words, (std::vector<uint64_t>{40, 52}));
}

// The region may call any byte its first: the address that the peer names is aligned, and the
// memory is not.
TEST_F(EffectsTest, AnAtomicOnMemoryThatIsNotAlignedIsRefused) {
  std::vector<uint64_t> words = {40, 50};
  MemoryRegion& region = Register(qp_, words, MrMode::kMapped);
  region.segments[0].mapped += 4;
  EXPECT_TRUE(effects_.Start(qp_, ReceiveFetchAdd(region, 0), packet_, frame_));
  EXPECT_EQ(words, (std::vector<uint64_t>{40, 50}));
  EXPECT_EQ(Answer(qp_), kNakRemoteAccess);
}

}  // namespace
}  // namespace uroce::datapath
