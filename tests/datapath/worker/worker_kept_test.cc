// SPDX-License-Identifier: Apache-2.0
// Packets behind a hole between two ends that have agreed to selective repeat: frames are kept, and
// executed in their turn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "pipeline/datapath/worker/frame.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

/// The number of its BTH, of a frame over IPv4 without a tag.
uint32_t PsnOf(const rte_mbuf* frame) {
  const uint8_t* bytes = rte_pktmbuf_mtod(frame, const uint8_t*) + 14 + 20 + 8 + 9;
  return uint32_t{bytes[0]} << 16 | uint32_t{bytes[1]} << 8 | bytes[2];
}

class WorkerKeptTest : public testing::TestWithParam<MrMode> {
 protected:
  static constexpr size_t kBytes = 64 * 1024;
  static constexpr uint32_t kPath = 1024;

  WorkerKeptTest() {
    bed_.attributes.selective_repeat = true;
    bed_.attributes.path_mtu_bytes = kPath;
    bed_.Connect(a_, b_);
    if (GetParam() == MrMode::kCopied) bed_.StartCopyHelper();
  }

  void Write(uint64_t wr_id, size_t from, size_t to, uint32_t length) {
    a_.PostSend({.opcode = kWrite,
                 .wr_id = wr_id,
                 .list = {Testbed::Sge(from_, from, length)},
                 .remote_addr = to_.iova + to,
                 .rkey = to_.key});
  }
  /// Loses the packet with this offset from the first one, once.
  void LoseOnce(uint32_t offset) {
    const uint32_t psn = bed_.attributes.sq_psn.value() + offset;
    bed_.ports[0].filter = [psn, lost = false](rte_mbuf* frame) mutable {
      if (lost || PsnOf(frame) != psn) return true;
      lost = true;
      return false;
    };
  }
  void ExpectDone(uint32_t count) {
    uroce_cqe cqe;
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_TRUE(bed_.RunUntil([&] { return a_.PollSend(cqe); }));
      EXPECT_EQ(cqe.status, 0);
    }
    bed_.Settle();
  }
  uint64_t Kept() { return b_.qp->counters().kept_out_of_order; }

  Testbed bed_;
  Endpoint& a_ = bed_.AddEndpoint(0);
  Endpoint& b_ = bed_.AddEndpoint(1);
  std::vector<uint8_t> source_ = Pattern(kBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& to_ = bed_.Register(target_.data(), kBytes, kAllAccess, GetParam());
};

std::string ModeName(const testing::TestParamInfo<MrMode>& mode) {
  return mode.param == MrMode::kMapped ? "mapped" : "copied";
}
INSTANTIATE_TEST_SUITE_P(Modes, WorkerKeptTest, testing::Values(MrMode::kMapped, MrMode::kCopied),
                         ModeName);

TEST_P(WorkerKeptTest, WhatFollowsALostPacketIsNotSentAgain) {
  LoseOnce(3);
  Write(1, 0, 0, 32 * kPath);
  ExpectDone(1);
  EXPECT_TRUE(std::equal(source_.begin(), source_.begin() + 32 * kPath, target_.begin()));
  EXPECT_EQ(Kept(), 28u);
  EXPECT_EQ(a_.qp->counters().retransmitted_pkts, 1u);
}

// The first WRITE loses its first packet; the second one to the same place must win.
TEST_P(WorkerKeptTest, OfTwoWritesToOnePlaceTheSecondRemains) {
  LoseOnce(0);
  Write(1, 0, 0, 8 * kPath);
  Write(2, 16 * kPath, 0, 8 * kPath);
  ExpectDone(2);
  EXPECT_TRUE(
      std::equal(target_.begin(), target_.begin() + 8 * kPath, source_.begin() + 16 * kPath));
}

// While the hole is open nothing behind it is in memory.
TEST_P(WorkerKeptTest, NothingBehindTheHoleIsSeenBeforeItIsFilled) {
  const uint32_t psn = bed_.attributes.sq_psn.value();
  bed_.ports[0].filter = [psn](rte_mbuf* frame) { return PsnOf(frame) != psn; };
  Write(1, 0, 0, 16 * kPath);
  for (int i = 0; i < 50; ++i) bed_.Turn();
  EXPECT_GE(Kept(), 15u);
  EXPECT_EQ(std::count(target_.begin(), target_.end(), 0), static_cast<ptrdiff_t>(kBytes));
  bed_.ports[0].filter = nullptr;
  ExpectDone(1);
  EXPECT_TRUE(std::equal(source_.begin(), source_.begin() + 16 * kPath, target_.begin()));
}

// More than are given back in one turn.
TEST_P(WorkerKeptTest, ManyAreGivenBackOverSeveralTurns) {
  const uint32_t psn = bed_.attributes.sq_psn.value();
  bed_.ports[0].filter = [psn](rte_mbuf* frame) { return PsnOf(frame) != psn; };
  Write(1, 0, 0, kBytes);
  Write(2, 0, 0, kBytes);
  Write(3, 0, 0, kBytes);
  for (int i = 0; i < 50; ++i) bed_.Turn();
  bed_.ports[0].filter = nullptr;
  ExpectDone(3);
  EXPECT_EQ(source_, target_);
  EXPECT_GE(Kept(), 128u);
}

// All frames come back when the queue pair goes, whatever becomes of it.
TEST_P(WorkerKeptTest, FramesComeBackFromAQueuePairThatEnds) {
  bed_.Settle();
  const auto hole = [this](uint32_t psn) {
    bed_.ports[0].filter = [psn](rte_mbuf* frame) { return PsnOf(frame) != psn; };
    Write(1, 0, 0, 16 * kPath);
    for (int i = 0; i < 50; ++i) bed_.Turn();
    ASSERT_TRUE(b_.qp->kept().any());
  };
  hole(bed_.attributes.sq_psn.value());
  bed_.Modify(b_, transport::QpState::kErr);
  bed_.Settle();
  EXPECT_FALSE(b_.qp->kept().any());
  bed_.Modify(a_, transport::QpState::kReset);
  bed_.Modify(b_, transport::QpState::kReset);
  bed_.ports[0].filter = nullptr;
  bed_.Connect(a_, b_);
  hole(bed_.attributes.sq_psn.value());
  bed_.Modify(b_, transport::QpState::kReset);
  EXPECT_FALSE(b_.qp->kept().any());
}

/// An attacker who knows addresses and queue pair number of a connection, and guesses its PSN.
class ForgedPacketsTest : public testing::TestWithParam<bool> {
 protected:
  static constexpr uint32_t kPath = 1024;
  static constexpr uint32_t kWindow = 2048;

  ForgedPacketsTest() {
    bed_.attributes.path_mtu_bytes = kPath;
    bed_.attributes.selective_repeat = GetParam();
    bed_.Connect(a_, b_);
  }

  /// Sends the FIRST of a WRITE of two packets to the place `to` with this PSN.
  void Forge(wire::Psn psn, size_t to) {
    const Path path = a_.qp->path();
    Attributes attributes = bed_.attributes;
    attributes.sq_psn = psn;
    const auto modify = [&](transport::QpState state, const Path* its_path) {
      bed_.worker->Modify(forger_.qp.get(), state, attributes, its_path);
    };
    modify(transport::QpState::kReset, nullptr);
    modify(transport::QpState::kInit, nullptr);
    modify(transport::QpState::kRtr, &path);
    modify(transport::QpState::kRts, nullptr);
    bed_.ports[0].filter = [this, psn](rte_mbuf* frame) {
      forged_ += PsnOf(frame) == psn.value() ? 1 : 0;
      return PsnOf(frame) == psn.value();
    };
    forger_.PostSend({.opcode = kWrite,
                      .wr_id = 1,
                      .list = {Testbed::Sge(evil_, 0, 2 * kPath)},
                      .remote_addr = to_.iova + to,
                      .rkey = to_.key});
    for (int i = 0; i < 4; ++i) bed_.Turn();
    bed_.ports[0].filter = nullptr;
  }

  Testbed bed_;
  Endpoint& a_ = bed_.AddEndpoint(0);
  Endpoint& b_ = bed_.AddEndpoint(1);
  Endpoint& forger_ = bed_.AddEndpoint(0);
  uint32_t forged_ = 0;
  std::vector<uint8_t> evil_bytes_ = std::vector<uint8_t>(2 * kPath, 0xee);
  std::vector<uint8_t> source_ = Pattern(4 * kPath, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(4 * kPath);
  MemoryRegion& evil_ =
      bed_.Register(evil_bytes_.data(), evil_bytes_.size(), kAllAccess, MrMode::kMapped);
  MemoryRegion& from_ = bed_.Register(source_.data(), source_.size(), kAllAccess, MrMode::kMapped);
  MemoryRegion& to_ = bed_.Register(target_.data(), target_.size(), kAllAccess, MrMode::kMapped);
};

INSTANTIATE_TEST_SUITE_P(PeerCapabilities, ForgedPacketsTest, testing::Bool(),
                         [](const auto& agreed) { return agreed.param ? "agreed" : "alone"; });

// Whatever the recovery is, only the packet that is next in order does anything. Without an
// agreement not even a frame is kept, and the true peer goes on as if nothing had come.
TEST_P(ForgedPacketsTest, WhatIsNotNextInOrderChangesNothingButWhatIsKept) {
  const wire::Psn next = bed_.attributes.sq_psn;
  for (uint32_t ahead = 1; ahead <= kWindow; ++ahead) Forge(next + ahead, 0);
  EXPECT_GE(forged_, kWindow);
  EXPECT_EQ(target_, std::vector<uint8_t>(target_.size()));
  EXPECT_EQ(b_.qp->state(), transport::QpState::kRts);
  EXPECT_EQ(b_.qp->reports().async_records(), 0u);
  EXPECT_EQ(b_.qp->kept().any(), GetParam());
  EXPECT_LE(b_.qp->counters().kept_out_of_order, GetParam() ? kWindow : 0);
  if (GetParam()) return;
  a_.PostSend({.opcode = kWrite,
               .wr_id = 1,
               .list = {Testbed::Sge(from_, 0, 4 * kPath)},
               .remote_addr = to_.iova,
               .rkey = to_.key});
  uroce_cqe cqe{};
  ASSERT_TRUE(bed_.RunUntil([&] { return a_.PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 0);
  EXPECT_EQ(target_, source_);
  EXPECT_EQ(a_.qp->counters().retransmitted_pkts, 0u);
}

/// A queue pair whose peer is silent for longer than the wait for a probe.
class SilentPeerTest : public testing::Test {
 protected:
  static constexpr Nanos kSilence{200'000};
  static constexpr uint32_t kBurstFrames = 32;

  SilentPeerTest() {
    bed_.attributes.selective_repeat = true;
    bed_.Connect(a_, b_);
    Write();  // Measures a round trip.
    EXPECT_TRUE(bed_.RunUntil([&] { return IsDone(); }));
  }
  void Write() {
    a_.PostSend({.opcode = kWrite,
                 .wr_id = 1,
                 .list = {Testbed::Sge(memory_, 0, 64)},
                 .remote_addr = memory_.iova + 64,
                 .rkey = memory_.key});
  }
  bool IsDone() {
    uroce_cqe cqe{};
    return a_.PollSend(cqe) && cqe.status == 0;
  }
  /// Frames of no use, in front of those that have arrived.
  void PutInFront(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      rte_mbuf* const frame = rte_pktmbuf_alloc(TestPool());
      std::memset(rte_pktmbuf_append(frame, 60), 0, 60);
      bed_.ports[0].arrived.push_front(frame);
    }
  }
  uint64_t Probes() { return a_.qp->counters().tail_loss_probes; }

  Testbed bed_;
  Endpoint& a_ = bed_.AddEndpoint(0);
  Endpoint& b_ = bed_.AddEndpoint(1);
  std::vector<uint8_t> bytes_ = Pattern(128, 1);
  MemoryRegion& memory_ = bed_.Register(bytes_.data(), bytes_.size(), kAllAccess, MrMode::kMapped);
};

TEST_F(SilentPeerTest, AnAnswerBehindManyFramesIsHeardBeforeAProbe) {
  Write();
  ASSERT_TRUE(bed_.RunUntil([&] { return !bed_.ports[0].arrived.empty(); }));
  PutInFront(10 * kBurstFrames);
  for (int turn = 0; turn < 10; ++turn) bed_.Turn(kSilence);
  EXPECT_FALSE(IsDone());
  EXPECT_EQ(Probes(), 0u);
  bed_.Turn(kSilence);
  EXPECT_TRUE(IsDone());
  bed_.Settle();
  EXPECT_EQ(Probes(), 0u);
}

TEST_F(SilentPeerTest, AQueueThatNeverEndsDelaysAProbeAlone) {
  bed_.ports[0].filter = [](rte_mbuf*) { return false; };
  Write();
  uint32_t turns = 0;
  for (; turns < 100 && Probes() == 0; ++turns) {
    PutInFront(2 * kBurstFrames - static_cast<uint32_t>(bed_.ports[0].arrived.size()));
    bed_.Turn(kSilence);
  }
  EXPECT_GT(turns, 64u);
  EXPECT_EQ(Probes(), 1u);
}

}  // namespace
}  // namespace uroce::datapath
