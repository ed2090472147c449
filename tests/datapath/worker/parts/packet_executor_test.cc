// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/packet_executor.h"

#include <algorithm>

#include "pipeline/datapath/worker/frame.h"
#include "tests/datapath/worker/parts/work_parts.h"
#include "tests/wire/reencode.h"

namespace uroce::datapath {
namespace {

/// A queue pair whose program's memory only the helper reaches.
class ResumptionTest : public WorkPartsTest {
 protected:
  static constexpr size_t kPayload = 100;

  ResumptionTest() {
    StartHelper(qp_);
    wire_.filter = [](rte_mbuf*) { return false; };
  }
  ~ResumptionTest() override {
    for (const auto& endpoint : endpoints_) timers_.Remove(*endpoint->qp);
  }

  /// A frame with a WRITE to the region, `ahead` packets behind the one that is next in order.
  rte_mbuf* WriteFrame(uint32_t ahead) const {
    wire::TransportHeader header;
    header.opcode = wire::Opcode::kWriteOnly;
    header.psn = qp_.core().expected_psn() + ahead;
    header.ack_request = true;
    header.reth = {
        .va = region_.iova + ahead * kPayload, .rkey = Rkey(region_.key), .length_bytes = kPayload};
    return NewFrame(wire::EncodeFrame({}, header, Pattern(kPayload, ahead), 0));
  }
  /// Gives the executor a frame, which may wait or be part of a copy job.
  void Receive(rte_mbuf* frame) {
    wire::Packet packet;
    wire::FrameView view;
    ASSERT_TRUE(DecodeAgain(*frame, packet, view));
    recorder_.Begin(packet);
    if (!executor_.Receive(qp_, packet, view, frame)) rte_pktmbuf_free(frame);
  }
  void AwaitCopy() {
    while (!resumption_.FinishCopies()) {
      resumption_.FinishDueCopies();
      sched_yield();
    }
  }
  bool IsWritten(uint32_t number) const {
    return std::ranges::equal(Pattern(kPayload, number),
                              std::span(memory_).subspan(number * kPayload, kPayload));
  }
  std::vector<QueuePair*> Touched() {
    std::vector<QueuePair*> touched;
    ready_.TakeTouched([&](QueuePair& qp) { touched.push_back(&qp); });
    return touched;
  }

  QueuePairTimers timers_;
  HeldSenders held_{cross_worker_.gates(), waiting_packets_};
  PacketExecutor executor_{{.effects = effects_,
                            .recorder = recorder_,
                            .held = held_,
                            .kept_frames = kept_frames_,
                            .ready = ready_,
                            .states = states_,
                            .waiting_packets = waiting_packets_,
                            .time = time_}};
  DirectDelivery direct_{{.keys = keys_,
                          .queue_pairs = objects_.queue_pairs(),
                          .congestion = congestion_,
                          .copies = copies_,
                          .executor = executor_,
                          .recorder = recorder_,
                          .time = time_}};
  Transmitter transmitter_{{.keys = keys_,
                            .ports = objects_.ports(),
                            .cross_worker = cross_worker_,
                            .stash = stash_,
                            .congestion = congestion_,
                            .copies = copies_,
                            .direct = direct_,
                            .held = held_,
                            .timers = timers_,
                            .ready = ready_,
                            .recorder = recorder_,
                            .time = time_}};
  Resumption resumption_{{.copies = copies_,
                          .effects = effects_,
                          .held = held_,
                          .key_changes = key_changes_,
                          .executor = executor_,
                          .ready = ready_,
                          .states = states_,
                          .transmitter = transmitter_}};
  Endpoint& endpoint_ = AddConnected();
  QueuePair& qp_ = *endpoint_.qp;
  const wire::Psn first_ = qp_.core().expected_psn();
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(10 * kPayload);
  MemoryRegion& region_ = Register(qp_, memory_, MrMode::kCopied);
};

TEST_F(ResumptionTest, TheEndOfACopyAnswersThePacketAndFreesItsFrame) {
  const uint32_t free_before = rte_mempool_avail_count(TestPool());
  EXPECT_FALSE(resumption_.FinishCopies()) << "nothing is copied";
  Receive(WriteFrame(0));
  ASSERT_EQ(qp_.wait(), WaitKind::kEffect);
  AwaitCopy();
  EXPECT_FALSE(qp_.is_waiting());
  EXPECT_TRUE(IsWritten(0));
  EXPECT_EQ(Answer(qp_).value_or(0xff) & 0xe0, 0) << "an ACK";
  EXPECT_EQ(rte_mempool_avail_count(TestPool()), free_before);
  EXPECT_EQ(Touched(), std::vector<QueuePair*>{&qp_});
}

// The second makes the queue pair wait again, so the third still waits. A fast helper has ended the
// next copy before FinishCopies returns, which then handles both.
TEST_F(ResumptionTest, PacketsThatWaitedAreExecutedInOrderOneCopyAtATime) {
  for (uint32_t i = 0; i < 3; ++i) Receive(WriteFrame(i));
  EXPECT_EQ(qp_.waiting().packets, 2u);
  uint32_t most_waiting = 1;
  for (uint32_t i = 0; qp_.is_waiting(); ++i) {
    EXPECT_EQ(qp_.wait(), WaitKind::kEffect);
    AwaitCopy();
    EXPECT_TRUE(IsWritten(i));
    EXPECT_LE(qp_.waiting().packets, most_waiting);
    EXPECT_TRUE(qp_.is_waiting() || IsWritten(2));
    most_waiting = 0;
  }
  EXPECT_EQ(qp_.core().expected_psn().Since(first_), 3);
}

// The packet behind the copy makes the queue pair wait at once when it is replayed. What the queue
// pair has to send is not delayed by that.
TEST_F(ResumptionTest, AQueuePairSendsAPacketBeforeThoseThatWaitAreReplayed) {
  for (uint32_t i = 0; i < 2; ++i) Receive(WriteFrame(i));
  AwaitCopy();
  EXPECT_EQ(qp_.traffic().sent_packets, 1u) << "before the copy of the second packet";
  while (qp_.is_waiting()) AwaitCopy();
  EXPECT_TRUE(IsWritten(1));
  EXPECT_EQ(qp_.traffic().sent_packets, 1u) << "nothing waits behind it: it sends in its turn";
}

TEST_F(ResumptionTest, AChangeOfStateThatWaitedForTheCopyIsMade) {
  Receive(WriteFrame(0));
  Receive(WriteFrame(1));
  states_.Modify(qp_, transport::QpState::kErr, Wanted());
  EXPECT_EQ(qp_.core().state(), transport::QpState::kRts);
  AwaitCopy();
  EXPECT_EQ(qp_.core().state(), transport::QpState::kErr);
  EXPECT_EQ(qp_.waiting().packets, 0u);
  EXPECT_TRUE(IsWritten(0));
  EXPECT_FALSE(IsWritten(1)) << "a queue pair in error executes nothing";
  EXPECT_EQ(device_.Sum(&DeviceCounters::rx_bad_state), 1u);
}

TEST_F(ResumptionTest, AHeldQueuePairGoesOnWhenItsProgramMayHaveCopiesAgain) {
  ProgramFrames& frames = qp_.program().frames;
  WaitingFrames::Take(frames, kWaiting.of_program);
  held_.Add(qp_);
  EXPECT_FALSE(resumption_.ReleaseHeld());
  EXPECT_TRUE(Touched().empty());
  WaitingFrames::Give(frames, kWaiting.of_program);
  EXPECT_TRUE(resumption_.ReleaseHeld());
  EXPECT_EQ(Touched(), std::vector<QueuePair*>{&qp_});
  EXPECT_TRUE(held_.empty());
}

TEST_F(ResumptionTest, APostponedQueuePairGoesOnInTheNextTurn) {
  EXPECT_FALSE(resumption_.TakePostponed());
  ready_.Postpone(qp_);
  time_.Begin(time_.now() + Nanos(1000));
  EXPECT_TRUE(resumption_.TakePostponed());
  EXPECT_EQ(Touched(), std::vector<QueuePair*>{&qp_});
  EXPECT_FALSE(resumption_.TakePostponed());
}

}  // namespace
}  // namespace uroce::datapath
