// SPDX-License-Identifier: Apache-2.0
// Works and packets that bind windows and take keys back, through workers.
#include <gtest/gtest.h>

#include "pipeline/datapath/memory/memory_keys.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

constexpr uint8_t kBindCompletion = 5;
constexpr uint8_t kLocalInvalidateCompletion = 6;
constexpr uint8_t kWithInvalidate = 8;
constexpr size_t kBytes = 64 * 1024;

/// A connection a - b and another c - d. The windows are on the side of b and d. The last worker
/// owns b, the first one all others.
class WindowsTest : public testing::Test {
 protected:
  explicit WindowsTest(uint32_t workers)
      : bed_((TestPool(), std::array<drivers::Port*, 2>{}), workers), last_(workers - 1) {
    bed_.Connect(a_, b_);
    bed_.Connect(c_, d_);
    target_.bound_windows = &bound_;
    for (auto [entry, window] : {std::pair(&entry_1_, &one_), std::pair(&entry_2_, &two_)}) {
      entry->key = window->key() & ~kKeyVariant;
      entry->window = window;
      EXPECT_TRUE(bed_.keys.Publish(entry));
    }
  }
  ~WindowsTest() override { bed_.RemoveEndpoints(); }

  void PostBind(Endpoint& end, const MemoryWindow& window, uint32_t length = 1000) {
    end.PostSend({.opcode = kBind,
                  .remote_addr = target_.iova,
                  .rkey = window.key() + 1,
                  .imm_or_rkey = window.key(),
                  .compare_add = length,
                  .swap = target_.key | uint64_t{kRemoteWrite | kRemoteRead} << 32});
  }
  static void PostInvalidate(Endpoint& end, uint32_t key) {
    end.PostSend({.opcode = kLocalInvalidate, .imm_or_rkey = key});
  }
  void PostWrite(Endpoint& end, uint32_t key) {
    end.PostSend({.opcode = kWrite,
                  .list = {Testbed::Sge(source_, 0, 1000)},
                  .remote_addr = target_.iova,
                  .rkey = key});
  }
  /// The next completion of `end`'s send queue.
  uroce_cqe Completion(Endpoint& end) {
    uroce_cqe cqe{};
    EXPECT_TRUE(bed_.RunUntil([&] { return end.send_ring.Peek() != nullptr; }));
    EXPECT_TRUE(end.PollSend(cqe));
    return cqe;
  }
  void Bind(Endpoint& end, const MemoryWindow& window) {
    PostBind(end, window);
    const uroce_cqe cqe = Completion(end);
    ASSERT_EQ(cqe.status, 0);
    ASSERT_EQ(cqe.opcode, kBindCompletion);
  }
  uint8_t StatusOfWrite(Endpoint& end, uint32_t key) {
    PostWrite(end, key);
    return Completion(end).status;
  }

  Testbed bed_;
  const uint32_t last_;
  Endpoint& a_ = bed_.AddEndpoint(0, {}, 0);
  Endpoint& b_ = bed_.AddEndpoint(1, {.sq_depth = 256}, last_);
  Endpoint& c_ = bed_.AddEndpoint(0, {}, 0);
  Endpoint& d_ = bed_.AddEndpoint(1, {}, 0);
  std::vector<uint8_t> source_bytes_ = Pattern(kBytes, 1);
  std::vector<uint8_t> target_bytes_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& source_ = bed_.Register(source_bytes_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& target_ =
      bed_.Register(target_bytes_.data(), kBytes, kLocalWrite | kWindowBind, MrMode::kMapped);
  std::atomic<uint32_t> bound_{0};
  MemoryWindow one_{MemoryWindow::Type::kType1, kTestPd, 0x7701};
  MemoryWindow two_{MemoryWindow::Type::kType2, kTestPd, 0x8801};
  MemoryRegion entry_1_;
  MemoryRegion entry_2_;
};

class WorkerWindowsTest : public WindowsTest, public testing::WithParamInterface<uint32_t> {
 protected:
  WorkerWindowsTest() : WindowsTest(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(Workers, WorkerWindowsTest, testing::Values(1u, 2u));

// [8.window.grant 8.window.fails 4.4.local]
TEST_P(WorkerWindowsTest, PeersWriteThroughABoundWindowUntilItsKeyIsTakenBack) {
  Bind(b_, two_);
  EXPECT_EQ(StatusOfWrite(a_, two_.key()), 0);
  EXPECT_EQ(memcmp(target_bytes_.data(), source_bytes_.data(), 1000), 0);
  PostInvalidate(b_, two_.key());
  const uroce_cqe cqe = Completion(b_);
  EXPECT_EQ(cqe.status, 0);
  EXPECT_EQ(cqe.opcode, kLocalInvalidateCompletion);
  EXPECT_EQ(StatusOfWrite(a_, two_.key()), kRemAccessErr);
}

// [8.window.type1 8.window.type2]
TEST_P(WorkerWindowsTest, Type2IsRefusedToOtherQueuePairsAndType1IsNot) {
  Bind(b_, one_);
  Bind(b_, two_);
  EXPECT_EQ(StatusOfWrite(c_, one_.key()), 0);
  EXPECT_EQ(StatusOfWrite(c_, two_.key()), kRemAccessErr);
}

// [8.window.remote 4.4.send]
TEST_P(WorkerWindowsTest, ASendInvalidatesForThePeer) {
  Bind(b_, two_);
  b_.PostReceive(1, {});
  a_.PostSend({.opcode = kSendWithInvalidate, .imm_or_rkey = two_.key()});
  EXPECT_EQ(Completion(a_).status, 0);
  uroce_cqe cqe{};
  ASSERT_TRUE(bed_.RunUntil([&] { return b_.receive_ring.Peek() != nullptr; }));
  ASSERT_TRUE(b_.PollReceive(cqe));
  EXPECT_EQ(cqe.status, 0);
  EXPECT_EQ(cqe.wc_flags, kWithInvalidate);
  EXPECT_EQ(cqe.imm_or_rkey, two_.key());
  EXPECT_FALSE(two_.Read());
  EXPECT_EQ(bound_, 0u);
}

// [8.window.fails 6.bind 4.4.local.fails]
TEST_P(WorkerWindowsTest, FailedWorksHaveTheirOwnStatuses) {
  PostBind(b_, two_, kBytes + 1);
  EXPECT_EQ(Completion(b_).status, kMwBindErr);
  EXPECT_EQ(b_.page_state(), static_cast<uint32_t>(transport::QpState::kErr));
  PostInvalidate(d_, two_.key());
  EXPECT_EQ(Completion(d_).status, kLocQpOpErr);
}

TEST_P(WorkerWindowsTest, MoreWorksThanAreHeldAtOnceAllComplete) {
  constexpr int kWorks = 200;
  b_.hold_bell = true;
  for (int i = 0; i < kWorks; ++i) PostBind(b_, one_);
  b_.RingBell();
  for (int i = 0; i < kWorks; ++i) ASSERT_EQ(Completion(b_).status, 0) << i;
}

TEST_P(WorkerWindowsTest, AQueuePairThatIsResetWaitsForNothing) {
  Bind(d_, two_);
  PostInvalidate(b_, two_.key());
  bed_.workers->at(last_).RunOnce(bed_.now);
  bed_.Modify(b_, transport::QpState::kReset);
  bed_.Settle();
  uroce_cqe cqe{};
  EXPECT_FALSE(b_.PollSend(cqe));
  EXPECT_FALSE(two_.Read());
}

class WindowsOfTwoWorkersTest : public WindowsTest {
 protected:
  WindowsOfTwoWorkersTest() : WindowsTest(2) {}
};

// [8.window.told] Another worker may be in the middle of an access by the key that another queue
// pair can use.
TEST_F(WindowsOfTwoWorkersTest, ACompletionWaitsUntilNoOtherWorkerCanUseTheKeyAnyMore) {
  Bind(b_, one_);
  PostBind(b_, one_);
  for (int i = 0; i < 10; ++i) bed_.workers->at(1).RunOnce(bed_.now);
  EXPECT_EQ(b_.send_ring.Peek(), nullptr);
  bed_.workers->at(0).RunOnce(bed_.now);
  bed_.workers->at(1).RunOnce(bed_.now);
  EXPECT_NE(b_.send_ring.Peek(), nullptr);
}

// [8.window.told 8.window.remote]
TEST_F(WindowsOfTwoWorkersTest, APacketThatTakesAnothersKeyBackHoldsUpWhatFollows) {
  Bind(d_, two_);
  b_.PostReceive(1, {});
  a_.PostSend({.opcode = kSendWithInvalidate, .imm_or_rkey = two_.key()});
  while (two_.Read()) bed_.Turn();
  for (int i = 0; i < 10; ++i) bed_.workers->at(1).RunOnce(bed_.now);
  EXPECT_EQ(b_.receive_ring.Peek(), nullptr);
  PostInvalidate(b_, 0x9900);  // Fails, when the queue pair goes on at all.
  bed_.workers->at(0).RunOnce(bed_.now);
  uroce_cqe cqe{};
  ASSERT_TRUE(bed_.RunUntil([&] { return b_.receive_ring.Peek() != nullptr; }));
  ASSERT_TRUE(b_.PollReceive(cqe));
  EXPECT_EQ(cqe.status, 0);
  EXPECT_EQ(Completion(b_).status, kLocQpOpErr);
}

// [8.window.told 8.window.remote]
TEST_F(WindowsOfTwoWorkersTest, AWriteBehindAPacketThatTakesAnothersKeyBackWaitsItsTurn) {
  Bind(b_, one_);
  Bind(d_, two_);
  b_.PostReceive(1, {});
  a_.PostSend({.opcode = kSendWithInvalidate, .imm_or_rkey = two_.key()});
  PostWrite(a_, one_.key());
  while (two_.Read()) bed_.Turn();
  for (int i = 0; i < 10; ++i) bed_.workers->at(1).RunOnce(bed_.now);
  EXPECT_NE(memcmp(target_bytes_.data(), source_bytes_.data(), 1000), 0);
  EXPECT_EQ(Completion(a_).status, 0);
  EXPECT_EQ(Completion(a_).status, 0);
  EXPECT_EQ(memcmp(target_bytes_.data(), source_bytes_.data(), 1000), 0);
  EXPECT_EQ(b_.qp->counters().out_of_sequence, 0u) << "it was kept, and is not asked for again";
}

// [8.window.remote]
TEST_F(WindowsOfTwoWorkersTest, APacketThatWaitsIsForgottenWithTheStateOfItsQueuePair) {
  Bind(d_, two_);
  b_.PostReceive(1, {});
  a_.PostSend({.opcode = kSendWithInvalidate, .imm_or_rkey = two_.key()});
  while (two_.Read()) bed_.Turn();
  bed_.Modify(b_, transport::QpState::kReset);
  for (int i = 0; i < 10; ++i) bed_.Turn();
  EXPECT_EQ(b_.receive_ring.Peek(), nullptr);
}

}  // namespace
}  // namespace uroce::datapath
