// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/copy_engine.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "pipeline/datapath/memory/stage.h"
#include "pipeline/datapath/queue/payload.h"
#include "pipeline/shm/rings/shared_word.h"
#include "tests/datapath/worker/parts/parts.h"
#include "tests/datapath/worker/parts/work_parts.h"

namespace uroce::datapath {
namespace {

using transport::Effect;

/// A queue pair whose program's memory only the helper reaches.
class CopyEngineTest : public WorkPartsTest {
 protected:
  CopyEngineTest() { StartHelper(qp_); }

  /// Has the payload of a new frame placed at the beginning of the region; returns the frame.
  rte_mbuf* Place(const MemoryRegion& region) {
    rte_mbuf* const frame = NewFrame(payload_);
    Effect effect;
    effect.kind = Effect::Kind::kPlaceRemote;
    effect.remote = {Rkey(region.key), region.iova, static_cast<uint32_t>(payload_.size()), 0};
    Transfer transfer;
    transfer.bytes = rte_pktmbuf_mtod(frame, uint8_t*);
    transfer.walker =
        WalkEffect(qp_, effect.kind, PlaceOf(effect), LengthOf(effect), transfer.remote);
    copies_.SubmitEffect(qp_, effect, packet_, transfer, frame);
    return frame;
  }
  /// What the copy of `qp_` ended with.
  MoveResult AwaitEnd() {
    std::optional<MoveResult> ended;
    while (!ended) {
      sched_yield();
      copies_.TakeFinished([&](QueuePair& qp, MoveResult result) {
        EXPECT_EQ(&qp, &qp_);
        ended = result;
      });
    }
    return *ended;
  }
  static void FreeFrameOf(QueuePair& qp) {
    rte_pktmbuf_free(std::exchange(qp.waiting().job->frame, nullptr));
    qp.set_wait(WaitKind::kNone);
  }

  Endpoint& endpoint_ = AddConnected();
  QueuePair& qp_ = *endpoint_.qp;
  std::vector<uint8_t> payload_ = Pattern(1000, 1);
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(2000);
  MemoryRegion& region_ = Register(qp_, memory_, MrMode::kCopied);
};

TEST_F(CopyEngineTest, AQueuePairWaitsUntilItsBytesAreThere) {
  StartSending(qp_);
  Place(region_);
  EXPECT_EQ(qp_.wait(), WaitKind::kEffect);
  EXPECT_TRUE(port_->sessions().empty()) << "it sends nothing meanwhile";
  EXPECT_EQ(AwaitEnd(), MoveResult::kDone);
  EXPECT_TRUE(std::equal(payload_.begin(), payload_.end(), memory_.begin()));
  EXPECT_EQ(memory_[payload_.size()], 0);
  EXPECT_EQ(qp_.wait(), WaitKind::kEffect) << "until the caller has done the rest";
  EXPECT_NE(qp_.waiting().job, nullptr) << "for the next copy";
  FreeFrameOf(qp_);
  EXPECT_EQ(InFlight(), 0u);
}

TEST_F(CopyEngineTest, FramesOfACopyCountAsThoseOfItsProgram) {
  Place(region_);
  EXPECT_EQ(qp_.program().frames.waiting, 1u);
  AwaitEnd();
  EXPECT_EQ(qp_.program().frames.waiting, 0u);
  FreeFrameOf(qp_);
}

TEST_F(CopyEngineTest, MemoryThatIsNotThereIsDenied) {
  MemoryRegion& nowhere = Register(qp_, memory_, MrMode::kCopied);
  nowhere.segments[0].app_addr = 8;
  Place(nowhere);
  EXPECT_EQ(AwaitEnd(), MoveResult::kDenied);
  FreeFrameOf(qp_);
}

TEST_F(CopyEngineTest, AnAtomicReturnsWhatWasThere) {
  std::vector<uint64_t> words = {40, 0};
  Register(qp_, words, MrMode::kCopied);
  Effect effect;
  effect.kind = Effect::Kind::kAtomic;
  effect.swap_add = 2;
  copies_.SubmitAtomic(qp_, effect, {.app_addr = reinterpret_cast<uint64_t>(words.data())});
  EXPECT_EQ(AwaitEnd(), MoveResult::kDone);
  EXPECT_EQ(qp_.waiting().job->original, 40u);
  EXPECT_EQ(words[0], 42u);
  EXPECT_EQ(words[1], 0u);
  qp_.set_wait(WaitKind::kNone);
}

TEST_F(CopyEngineTest, AnAbandonedCopyIsReportedToNoQueuePair) {
  const uint32_t before = rte_mempool_avail_count(TestPool());
  Place(region_);
  CopyEngine::Abandon(qp_);
  EXPECT_EQ(qp_.waiting().in_flight, nullptr);
  EXPECT_NE(qp_.waiting().job, nullptr);
  while (InFlight() != 0) {
    sched_yield();
    copies_.TakeFinished([](QueuePair&, MoveResult) { ADD_FAILURE(); });
  }
  EXPECT_EQ(rte_mempool_avail_count(TestPool()), before) << "the job's frame went with it";
  EXPECT_EQ(qp_.program().frames.waiting, 0u);
  qp_.set_wait(WaitKind::kNone);
}

TEST_F(CopyEngineTest, TheProgramSeesThatAnAbandonedCopyStillWrites) {
  const Fd file = *MakeSharedFile("stage", sizeof(uroce_stage));
  const Mapping program = *MapShared(file.get(), sizeof(uroce_stage));
  qp_.config().session->copy_helper()->SetStage(std::make_unique<Stage>(
      *GuardedMapping::Make(*MapShared(file.get(), sizeof(uroce_stage)), MappingGuard::kNoOwner)));
  auto& stage = *reinterpret_cast<uroce_stage*>(program.data());
  region_.segments[0].is_staged = true;
  Place(region_);
  while (rings::LoadAcquire(stage.requested) == 0) sched_yield();
  CopyEngine::Abandon(qp_);
  qp_.set_wait(WaitKind::kNone);
  EXPECT_TRUE(qp_.config().session->HasLateWrites());
  stage.error = EFAULT;  // Any answer ends it.
  rings::StoreRelease(stage.served, 1u);
  syscall(SYS_futex, &stage.served, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  while (qp_.config().session->HasLateWrites()) sched_yield();
}

// Packets behind a copy, and senders that are held meanwhile.

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

/// Senders of programs with a helper, and of programs without one.
class CopyingSendersTest : public WorkPartsTest {
 protected:
  /// As if no more frame of `qp`'s program could wait at this worker.
  void FillFrames(QueuePair& qp) {
    ProgramFrames& frames = qp.program().frames;
    while (waiting_packets_.frames().HasRoom(frames)) WaitingFrames::Take(frames);
  }
  void EmptyFrames(QueuePair& qp) {
    ProgramFrames& frames = qp.program().frames;
    WaitingFrames::Give(frames, frames.waiting);
  }
  uint32_t Release() {
    uint32_t released = 0;
    held_.Release([&](QueuePair&) { ++released; });
    return released;
  }

  QueuePair& qp_ = *AddConnected().qp;
  HeldSenders held_{nullptr, waiting_packets_};
};

TEST_F(CopyingSendersTest, WhoseProgramHasNoRoomForFramesIsHeldUntilItHas) {
  StartHelper(qp_);
  EXPECT_FALSE(held_.MustHold(qp_));
  FillFrames(qp_);
  EXPECT_TRUE(held_.MustHold(qp_));
  held_.Add(qp_);
  EXPECT_EQ(Release(), 0u);
  EmptyFrames(qp_);
  EXPECT_EQ(Release(), 1u);
  EXPECT_TRUE(held_.empty());
}

TEST_F(CopyingSendersTest, AProgramWithoutAHelperNeedsNoRoomForFrames) {
  FillFrames(qp_);
  EXPECT_FALSE(held_.MustHold(qp_));
  held_.Add(qp_);
  EXPECT_EQ(Release(), 1u);
  EmptyFrames(qp_);
}

}  // namespace
}  // namespace uroce::datapath
