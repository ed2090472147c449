// SPDX-License-Identifier: Apache-2.0
// A worker over two joined ports, synchronously: contents, statuses, drops.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>

#include "pipeline/transport/responder_state.h"
#include "pipeline/wire/decode.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

/// Both ends connected; 256 KB on each side, mapped or copied as the parameter says.
class WorkerTest : public testing::TestWithParam<MrMode> {
 protected:
  static constexpr size_t kBytes = 256 * 1024;

  WorkerTest() {
    if (GetParam() == MrMode::kCopied) bed_.StartCopyHelper();
    bed_.Connect(a_, b_);
  }

  void ExpectSent(Endpoint& endpoint, uint64_t wr_id, uint8_t status = 0) {
    uroce_cqe cqe;
    ASSERT_TRUE(endpoint.PollSend(cqe)) << "wr_id " << wr_id;
    EXPECT_EQ(cqe.wr_id, wr_id);
    EXPECT_EQ(cqe.status, status);
  }

  Testbed bed_;
  Endpoint& a_ = bed_.AddEndpoint(0);
  Endpoint& b_ = bed_.AddEndpoint(1);
  std::vector<uint8_t> source_ = Pattern(kBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kBytes, kAllAccess, GetParam());
  MemoryRegion& to_ = bed_.Register(target_.data(), kBytes, kAllAccess, GetParam());
};

INSTANTIATE_TEST_SUITE_P(Modes, WorkerTest, testing::Values(MrMode::kMapped, MrMode::kCopied),
                         [](const auto& mode) {
                           return mode.param == MrMode::kMapped ? "Mapped" : "Copied";
                         });

TEST_P(WorkerTest, WriteOfManyPacketsArrivesByteForByte) {
  a_.PostSend({.opcode = kWrite,
               .wr_id = 5,
               .list = {Testbed::Sge(from_, 3, 100'001), Testbed::Sge(from_, 150'000, 77)},
               .remote_addr = to_.iova + 11,
               .rkey = to_.key});
  ASSERT_TRUE(bed_.RunUntil([&] { return a_.send_ring.Peek() != nullptr; }));
  ExpectSent(a_, 5);
  EXPECT_EQ(memcmp(target_.data() + 11, source_.data() + 3, 100'001), 0);
  EXPECT_EQ(memcmp(target_.data() + 11 + 100'001, source_.data() + 150'000, 77), 0);
  EXPECT_EQ(target_[10], 0);
  EXPECT_EQ(target_[11 + 100'001 + 77], 0) << "nothing behind the message";
}

TEST_P(WorkerTest, ReadBringsTheRemoteBytes) {
  a_.PostSend({.opcode = kRead,
               .wr_id = 6,
               .list = {Testbed::Sge(to_, 1, 5000), Testbed::Sge(to_, 9000, 4001)},
               .remote_addr = from_.iova + 7,
               .rkey = from_.key});
  ASSERT_TRUE(bed_.RunUntil([&] { return a_.send_ring.Peek() != nullptr; }));
  ExpectSent(a_, 6);
  EXPECT_EQ(memcmp(target_.data() + 1, source_.data() + 7, 5000), 0);
  EXPECT_EQ(memcmp(target_.data() + 9000, source_.data() + 5007, 4001), 0);
}

TEST_P(WorkerTest, SendScattersIntoTheReceiveList) {
  b_.PostReceive(70, {Testbed::Sge(to_, 0, 100), Testbed::Sge(to_, 1000, 3000)});
  a_.PostSend({.opcode = kSend, .wr_id = 7, .list = {Testbed::Sge(from_, 0, 2500)}});
  ASSERT_TRUE(bed_.RunUntil([&] { return a_.send_ring.Peek() != nullptr; }));
  ExpectSent(a_, 7);
  uroce_cqe cqe;
  ASSERT_TRUE(b_.PollReceive(cqe));
  EXPECT_EQ(cqe.wr_id, 70u);
  EXPECT_EQ(cqe.status, 0);
  EXPECT_EQ(cqe.byte_len, 2500u);
  EXPECT_EQ(memcmp(target_.data(), source_.data(), 100), 0);
  EXPECT_EQ(memcmp(target_.data() + 1000, source_.data() + 100, 2400), 0);
}

TEST_P(WorkerTest, ALongerListThanTheOperationAllowsIsALocalLengthError) {
  constexpr uint32_t kHalf = 1u << 30;
  uroce_sge first = Testbed::Sge(from_, 0, 8), second = first;
  first.length = kHalf;
  second.length = kHalf + 1;
  a_.PostSend({.opcode = kWrite,
               .wr_id = 1,
               .list = {first, second},
               .remote_addr = to_.iova,
               .rkey = to_.key});
  uroce_cqe cqe{};
  ASSERT_TRUE(bed_.RunUntil([&] { return a_.PollSend(cqe); }));
  EXPECT_EQ(cqe.status, kLocLenErr);
  EXPECT_EQ(std::ranges::count(target_, 0), ptrdiff_t{kBytes}) << "nothing is written";
}

TEST_P(WorkerTest, AnAtomicOfNineBytesIsALocalLengthError) {
  a_.PostSend({.opcode = kCompareSwap,
               .wr_id = 1,
               .list = {Testbed::Sge(from_, 0, 9)},
               .remote_addr = to_.iova,
               .rkey = to_.key,
               .swap = 1});
  uroce_cqe cqe{};
  ASSERT_TRUE(bed_.RunUntil([&] { return a_.PollSend(cqe); }));
  EXPECT_EQ(cqe.status, kLocLenErr);
  EXPECT_EQ(target_[0], 0);
}

// What is aligned in a region that calls its first byte 0 may lie across two lines of a cache.
TEST_P(WorkerTest, AnAtomicWriteIsDoneOnAlignedMemoryAlone) {
  const auto write_to = [this](MemoryRegion& region, uint64_t wr_id) {
    region.iova = region.segments[0].iova = 0;
    a_.PostSend({.opcode = kAtomicWrite,
                 .wr_id = wr_id,
                 .list = {Testbed::Sge(from_, 0, 8)},
                 .remote_addr = 8,
                 .rkey = region.key});
    uroce_cqe cqe{};
    EXPECT_TRUE(bed_.RunUntil([&] { return a_.PollSend(cqe); }));
    EXPECT_EQ(cqe.wr_id, wr_id);
    return cqe.status;
  };
  ASSERT_EQ(reinterpret_cast<uintptr_t>(target_.data()) % 8, 0u);
  EXPECT_EQ(write_to(bed_.Register(&target_[64], 64, kAllAccess, GetParam()), 1), 0u);
  EXPECT_EQ(memcmp(&target_[72], source_.data(), 8), 0);
  EXPECT_EQ(write_to(bed_.Register(&target_[132], 64, kAllAccess, GetParam()), 2), 10u)
      << "IBV_WC_REM_ACCESS_ERR";
  EXPECT_EQ(std::ranges::count(std::span(target_).subspan(140, 8), 0), 8);
}

TEST_P(WorkerTest, AtomicsReturnTheOriginalAndUpdateMemory) {
  uint64_t word = 40;
  memcpy(target_.data() + 64, &word, sizeof(word));
  a_.PostSend({.opcode = kFetchAdd,
               .wr_id = 1,
               .list = {Testbed::Sge(from_, 0, 8)},
               .remote_addr = to_.iova + 64,
               .rkey = to_.key,
               .compare_add = 2});
  a_.PostSend({.opcode = kCompareSwap,
               .wr_id = 2,
               .list = {Testbed::Sge(from_, 8, 8)},
               .remote_addr = to_.iova + 64,
               .rkey = to_.key,
               .compare_add = 42,
               .swap = 99});
  a_.PostSend({.opcode = kCompareSwap,
               .wr_id = 3,
               .list = {Testbed::Sge(from_, 16, 8)},
               .remote_addr = to_.iova + 64,
               .rkey = to_.key,
               .compare_add = 42,
               .swap = 7});
  ASSERT_TRUE(bed_.RunUntil([&] { return a_.qp->traffic().received_packets >= 3; }));
  bed_.Settle();
  for (const uint64_t wr_id : {1, 2, 3}) ExpectSent(a_, wr_id);
  uint64_t originals[3];
  memcpy(originals, source_.data(), sizeof(originals));
  EXPECT_EQ(originals[0], 40u);
  EXPECT_EQ(originals[1], 42u);
  EXPECT_EQ(originals[2], 99u);
  memcpy(&word, target_.data() + 64, sizeof(word));
  EXPECT_EQ(word, 99u) << "the second swap did not compare equal";
}

TEST_P(WorkerTest, InlineBytesAreThoseOfThePost) {
  b_.PostReceive(1, {Testbed::Sge(to_, 0, 64)});
  a_.PostSend({.opcode = kSend, .wr_id = 8, .inline_data = "inline bytes"});
  memset(a_.sq.data(), 0xee, a_.sq.size() / 2);  // The ring is copied, so it must be before:
  bed_.Settle();
  uroce_cqe cqe;
  ASSERT_TRUE(a_.PollSend(cqe));
  EXPECT_NE(cqe.status, 0) << "what the ring held when it was read was nonsense";
}

TEST_P(WorkerTest, TheMostInlineBytesFillSeveralPackets) {
  bed_.attributes.path_mtu_bytes = 256;
  const Endpoint::Limits limits{.max_inline = UROCE_MAX_INLINE};
  Endpoint& a = bed_.AddEndpoint(0, limits);
  Endpoint& b = bed_.AddEndpoint(1, limits);
  bed_.Connect(a, b);
  const std::string bytes(source_.begin(), source_.begin() + UROCE_MAX_INLINE);
  a.PostSend({.opcode = kWrite,
              .wr_id = 1,
              .inline_data = bytes,
              .remote_addr = to_.iova + 5,
              .rkey = to_.key});
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a.PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 0);
  EXPECT_EQ(memcmp(target_.data() + 5, bytes.data(), bytes.size()), 0);
  EXPECT_GE(a.qp->traffic().sent_packets, 2u);
}

TEST_P(WorkerTest, TheLongestListIsGatheredAndScattered) {
  const Endpoint::Limits limits{.max_sge = UROCE_MAX_SGE};
  Endpoint& a = bed_.AddEndpoint(0, limits);
  Endpoint& b = bed_.AddEndpoint(1, limits);
  bed_.Connect(a, b);
  std::vector<uroce_sge> sends;
  std::vector<uroce_sge> receives;
  for (uint32_t i = 0; i < UROCE_MAX_SGE; ++i) {
    sends.push_back(Testbed::Sge(from_, i * 101, 101));
    receives.push_back(Testbed::Sge(to_, i * 101, 101));
  }
  b.PostReceive(1, receives);
  a.PostSend({.opcode = kSend, .wr_id = 1, .list = sends});
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a.PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 0);
  EXPECT_EQ(memcmp(target_.data(), source_.data(), UROCE_MAX_SGE * 101), 0);
}

TEST_P(WorkerTest, LossIsRepaired) {
  std::mt19937 random(5);
  for (TestPort& port : bed_.ports) port.filter = [&](rte_mbuf*) { return random() % 25 != 0; };
  for (uint64_t i = 0; i < 20; ++i) {
    a_.PostSend({.opcode = i % 2 == 0 ? kWrite : kRead,
                 .wr_id = i,
                 .list = {Testbed::Sge(i % 2 == 0 ? from_ : to_, i * 10'000, 9'999)},
                 .remote_addr = (i % 2 == 0 ? to_ : from_).iova + i * 10'000,
                 .rkey = (i % 2 == 0 ? to_ : from_).key});
  }
  uint64_t done = 0;
  ASSERT_TRUE(bed_.RunUntil([&] {
    uroce_cqe cqe;
    while (a_.PollSend(cqe)) {
      EXPECT_EQ(cqe.wr_id, done++);
      EXPECT_EQ(cqe.status, 0);
    }
    return done == 20;
  }));
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(memcmp(target_.data() + i * 10'000, source_.data() + i * 10'000, 9'999), 0) << i;
  }
}

TEST_P(WorkerTest, ImmediateNeedsAReceiveAndWaitsForOne) {
  a_.PostSend({.opcode = kWriteWithImm,
               .wr_id = 9,
               .list = {Testbed::Sge(from_, 0, 3000)},
               .remote_addr = to_.iova,
               .rkey = to_.key,
               .imm_or_rkey = 0x01020304});
  bed_.Settle();
  uroce_cqe cqe;
  EXPECT_FALSE(a_.PollSend(cqe)) << "receiver not ready";
  b_.PostReceive(90, {});
  ASSERT_TRUE(bed_.RunUntil([&] { return a_.PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 0);
  ASSERT_TRUE(b_.PollReceive(cqe));
  EXPECT_EQ(cqe.wr_id, 90u);
  EXPECT_EQ(cqe.imm_or_rkey, 0x01020304u);
  EXPECT_EQ(cqe.byte_len, 3000u);
  EXPECT_EQ(memcmp(target_.data(), source_.data(), 3000), 0);
}

TEST_P(WorkerTest, AcknowledgementsTellOfHalfTheReceivesThatWaitAtLeast) {
  std::vector<uint8_t> told;
  bed_.ports[1].filter = [&told](rte_mbuf* frame) {
    wire::Packet packet;
    wire::FrameView view;
    const std::span bytes(rte_pktmbuf_mtod(frame, const uint8_t*), frame->data_len);
    EXPECT_EQ(wire::Decode(bytes, packet, view), wire::DecodeResult::kOk);
    told.push_back(packet.header.aeth.syndrome);
    return true;
  };
  const auto send = [&] {
    a_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 0, 8)}});
    ASSERT_TRUE(bed_.RunUntil([&] { return a_.send_ring.Peek() != nullptr; }));
    ExpectSent(a_, 0);
  };
  const auto post_receives = [&](int count) {
    while (count-- != 0) b_.PostReceive(0, {Testbed::Sge(to_, 0, 8)});
  };
  post_receives(9);
  send();
  EXPECT_EQ(told.back(), transport::CreditCode(8));
  post_receives(24);
  send();
  EXPECT_EQ(told.back(), transport::CreditCode(7)) << "the index is not read for each message";
  for (int i = 0; i < 3; ++i) send();
  EXPECT_EQ(told.back(), transport::CreditCode(28)) << "half of those first seen are taken";
  for (int i = 0; i < 28; ++i) send();
  EXPECT_EQ(told.back(), transport::CreditCode(0));
}

TEST_P(WorkerTest, RemoteKeyOutOfRangeIsAnAccessError) {
  a_.PostSend({.opcode = kWrite,
               .wr_id = 10,
               .list = {Testbed::Sge(from_, 0, 100)},
               .remote_addr = to_.iova + kBytes - 50,
               .rkey = to_.key});
  bed_.Settle();
  ExpectSent(a_, 10, 10);  // IBV_WC_REM_ACCESS_ERR
  EXPECT_EQ(a_.page_state(), 6u);
  EXPECT_EQ(b_.page_state(), 6u);
  EXPECT_TRUE(std::ranges::all_of(target_, [](uint8_t byte) { return byte == 0; }));
}

TEST_P(WorkerTest, BadLocalKeyFailsTheWorkAndFlushesTheRest) {
  a_.PostSend({.opcode = kWrite,
               .wr_id = 11,
               .list = {{from_.iova, 8, 0xdead}},
               .remote_addr = to_.iova,
               .rkey = to_.key});
  a_.PostSend({.opcode = kWrite,
               .flags = 0,
               .wr_id = 12,
               .list = {Testbed::Sge(from_, 0, 8)},
               .remote_addr = to_.iova,
               .rkey = to_.key});
  a_.PostReceive(13, {});
  bed_.Settle();
  ExpectSent(a_, 11, 4);  // IBV_WC_LOC_PROT_ERR
  ExpectSent(a_, 12, 5);  // IBV_WC_WR_FLUSH_ERR
  uroce_cqe cqe;
  ASSERT_TRUE(a_.PollReceive(cqe));
  EXPECT_EQ(cqe.wr_id, 13u);
  EXPECT_EQ(cqe.status, 5);
}

TEST_P(WorkerTest, DeregisteredKeyIsDeniedFromThenOn) {
  bed_.keys.Unpublish(&to_);
  a_.PostSend({.opcode = kWrite,
               .wr_id = 14,
               .list = {Testbed::Sge(from_, 0, 8)},
               .remote_addr = to_.iova,
               .rkey = to_.key});
  bed_.Settle();
  ExpectSent(a_, 14, 10);
}

TEST_P(WorkerTest, AllOfADeepQueueIsPostedSentAndCompleted) {
  uint64_t posted = 0;
  uint64_t completed = 0;
  while (completed < 1000) {
    while (posted - completed < 64 && posted < 1000) {
      a_.PostSend({.opcode = kWrite,
                   .wr_id = posted,
                   .list = {Testbed::Sge(from_, posted * 64, 64)},
                   .remote_addr = to_.iova + posted * 64,
                   .rkey = to_.key});
      ++posted;
    }
    bed_.Turn();
    uroce_cqe cqe;
    while (a_.PollSend(cqe)) EXPECT_EQ(cqe.wr_id, completed++);
  }
  EXPECT_EQ(memcmp(target_.data(), source_.data(), 64'000), 0);
}

TEST_P(WorkerTest, TwoEndpointsOfOneDeviceTalkToEachOther) {
  Endpoint& c = bed_.AddEndpoint(0);
  Endpoint& d = bed_.AddEndpoint(0);
  bed_.Connect(c, d);
  c.PostSend({.opcode = kWrite,
              .wr_id = 15,
              .list = {Testbed::Sge(from_, 0, 50'000)},
              .remote_addr = to_.iova,
              .rkey = to_.key});
  ASSERT_TRUE(bed_.RunUntil([&] { return c.send_ring.Peek() != nullptr; }));
  ExpectSent(c, 15);
  EXPECT_EQ(memcmp(target_.data(), source_.data(), 50'000), 0);
  EXPECT_EQ(bed_.ports[0].sent, 0u) << "nothing left the device";
}

TEST_P(WorkerTest, ResetForgetsAndTheQueuePairCanBeUsedAgain) {
  a_.PostReceive(1, {Testbed::Sge(to_, 0, 8)});
  b_.PostSend({.opcode = kWrite,
               .wr_id = 1,
               .list = {Testbed::Sge(from_, 0, 60'000)},
               .remote_addr = to_.iova,
               .rkey = to_.key});
  bed_.Turn();
  bed_.Turn();
  bed_.Modify(a_, transport::QpState::kReset);
  bed_.Modify(b_, transport::QpState::kReset);
  bed_.Settle();
  uroce_cqe cqe;
  while (b_.PollSend(cqe)) ADD_FAILURE() << "reset work completed";
  bed_.Connect(a_, b_);
  a_.PostSend({.opcode = kWrite,
               .wr_id = 2,
               .list = {Testbed::Sge(from_, 0, 8)},
               .remote_addr = to_.iova + 100'000,
               .rkey = to_.key});
  ASSERT_TRUE(bed_.RunUntil([&] { return a_.send_ring.Peek() != nullptr; }));
  ExpectSent(a_, 2);
}

}  // namespace
}  // namespace uroce::datapath
