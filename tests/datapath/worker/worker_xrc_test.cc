// SPDX-License-Identifier: Apache-2.0
// Extended connections (XRC): a target works with the queues, keys and memory of the program that
// owns the shared receive queue that a request names.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/memory/stage.h"
#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/datapath/queue/work_queues.h"
#include "pipeline/shm/rings/shared_word.h"
#include "tests/datapath/queue/record_stream.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"
#include "tests/datapath/worker/copied_memory.h"

namespace uroce::datapath {
namespace {

using transport::QpState;

constexpr uint32_t kQpAccessErr = 3;

/// A program's shared receive queue in a domain, with its own completion queue.
class OwnedQueue {
 public:
  static constexpr uint32_t kDepth = 16;
  static constexpr uint32_t kSlotBytes = rings::ReceiveSlotBytes(1);
  static constexpr uint32_t kEntries = 32;

  OwnedQueue(Testbed& bed, XrcQueues* domain, Session* session, uint32_t pd, uint32_t number)
      : bed_(bed),
        ring_(&cq_.AddRing(0, {consumed_.get(), entries_.data(), kEntries})),
        queue_({.pd = pd,
                .page = page_.get(),
                .layout = {.slots = slots_.data(), .depth = kDepth, .slot_bytes = kSlotBytes},
                .max_sge = 1,
                .domain = domain,
                .number = number,
                .handle = number + 1000,
                .session = session,
                .ring = ring_}) {
    bed_.worker->AddSharedReceiveQueue(&queue_);
  }
  ~OwnedQueue() { Remove(); }

  void Remove() {
    SharedReceiveQueue* const leaving[] = {&queue_};
    if (std::exchange(is_there_, false)) bed_.worker->RemoveSharedReceiveQueues(leaving);
  }
  void Post(uint64_t wr_id, const uroce_sge& sge) {
    uint8_t* tail = rings::WriteReceiveHeader(producer_.Slot(producer_.index()), wr_id, 1);
    rings::WriteSge(tail, 0, sge.addr, sge.length, sge.lkey);
    producer_.Advance();
    producer_.Publish();
  }
  bool Poll(uroce_cqe& cqe) { return Endpoint::Poll(consumer_, cqe); }
  uint32_t taken() const { return page_->consumed.value; }
  void SpoilIndex() { page_->produced.value = kDepth + 1; }

 private:
  Testbed& bed_;
  bool is_there_ = true;
  std::unique_ptr<uroce_srq_page> page_ = std::make_unique<uroce_srq_page>();
  std::vector<uint8_t> slots_ = std::vector<uint8_t>(size_t{kDepth} * kSlotBytes);
  rings::WorkQueueProducer producer_{
      {.slots = slots_.data(), .depth = kDepth, .slot_bytes = kSlotBytes}, &page_->produced};
  std::unique_ptr<uroce_cq_page> cq_page_ = std::make_unique<uroce_cq_page>();
  std::unique_ptr<uroce_cq_ring_page> consumed_ = std::make_unique<uroce_cq_ring_page>();
  std::vector<uroce_cqe> entries_ = std::vector<uroce_cqe>(kEntries);
  rings::CqeConsumer consumer_{{consumed_.get(), entries_.data(), kEntries}};
  CompletionQueue cq_{CompletionQueueConfig{.page = cq_page_.get(), .user_handle = 7}};
  CompletionRing* ring_;
  SharedReceiveQueue queue_;
};

/// An initiator, and a target whose domain has the queues of two other programs. The target's own
/// program has nothing to do with either.
class WorkerXrcTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 64 * 1024;
  static constexpr uint32_t kPdA = 21, kPdB = 22;
  static constexpr uint32_t kA = 0x1234, kB = 0x5678;

  WorkerXrcTest() {
    bed_.attributes.path_mtu_bytes = 256;  // Long messages take several turns.
    bed_.Connect(initiator_, target_);
    to_a_.pd = kPdA;
    to_b_.pd = kPdB;
  }
  ~WorkerXrcTest() override { bed_.RemoveEndpoints(); }

  uroce_cqe SendDone() {
    bed_.Settle();
    uroce_cqe cqe{};
    EXPECT_TRUE(initiator_.PollSend(cqe));
    return cqe;
  }
  bool IsInError() const { return target_.page_state() == static_cast<uint32_t>(QpState::kErr); }

  XrcQueues domain_;
  Testbed bed_;
  Session& session_a_ = bed_.AddSession();
  Session& session_b_ = bed_.AddSession();
  Endpoint& initiator_ = bed_.AddEndpoint(0, {.service = wire::Service::kXrc});
  Endpoint& target_ = bed_.AddEndpoint(1, {.service = wire::Service::kXrc, .domain = &domain_});
  std::vector<uint8_t> source_ = Pattern(kBytes, 1);
  std::vector<uint8_t> bytes_a_ = std::vector<uint8_t>(kBytes);
  std::vector<uint8_t> bytes_b_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& to_a_ = bed_.Register(bytes_a_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& to_b_ = bed_.Register(bytes_b_.data(), kBytes, kAllAccess, MrMode::kMapped);
  OwnedQueue a_{bed_, &domain_, &session_a_, kPdA, kA};
  OwnedQueue b_{bed_, &domain_, &session_b_, kPdB, kB};
};

TEST_F(WorkerXrcTest, EachMessageGoesToTheQueueThatItNames) {
  a_.Post(1, Testbed::Sge(to_a_, 0, 5000));
  b_.Post(2, Testbed::Sge(to_b_, 0, 5000));
  initiator_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 7, 5000)}, .xrc_srqn = kB});
  initiator_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 9, 3000)}, .xrc_srqn = kA});
  EXPECT_EQ(SendDone().status, kSuccess);
  EXPECT_EQ(SendDone().status, kSuccess);
  uroce_cqe cqe;
  ASSERT_TRUE(a_.Poll(cqe));
  EXPECT_EQ(cqe.wr_id, 1u);
  EXPECT_EQ(cqe.byte_len, 3000u);
  EXPECT_EQ(cqe.flags, UROCE_CQE_RECEIVE | UROCE_CQE_SHARED | UROCE_CQE_XRC);
  EXPECT_EQ(cqe.qp_handle, kA + 1000) << "the queue's: the target is not its program's";
  EXPECT_EQ(cqe.qp_num, target_.qp->qpn().value());
  ASSERT_TRUE(b_.Poll(cqe));
  EXPECT_EQ(cqe.wr_id, 2u);
  EXPECT_EQ(memcmp(bytes_b_.data(), source_.data() + 7, 5000), 0);
  EXPECT_EQ(memcmp(bytes_a_.data(), source_.data() + 9, 3000), 0);
}

TEST_F(WorkerXrcTest, RemoteKeysAreThoseOfTheNamedQueuesDomain) {
  initiator_.PostSend({.opcode = kWrite,
                       .list = {Testbed::Sge(from_, 0, 3000)},
                       .remote_addr = to_a_.iova,
                       .rkey = to_a_.key,
                       .xrc_srqn = kA});
  EXPECT_EQ(SendDone().status, kSuccess);
  EXPECT_EQ(memcmp(bytes_a_.data(), source_.data(), 3000), 0);
  initiator_.PostSend({.opcode = kRead,
                       .list = {Testbed::Sge(from_, 8000, 3000)},
                       .remote_addr = to_a_.iova,
                       .rkey = to_a_.key,
                       .xrc_srqn = kA});
  EXPECT_EQ(SendDone().status, kSuccess);
  EXPECT_EQ(memcmp(source_.data() + 8000, bytes_a_.data(), 3000), 0);
  initiator_.PostSend({.opcode = kFetchAdd,
                       .list = {Testbed::Sge(from_, 0, 8)},
                       .remote_addr = to_a_.iova,
                       .rkey = to_a_.key,
                       .compare_add = 1,
                       .xrc_srqn = kA});
  EXPECT_EQ(SendDone().status, kSuccess);
  initiator_.PostSend({.opcode = kWrite,
                       .list = {Testbed::Sge(from_, 0, 8)},
                       .remote_addr = to_a_.iova,
                       .rkey = to_a_.key,
                       .xrc_srqn = kB});
  EXPECT_EQ(SendDone().status, kRemAccessErr);
  EXPECT_TRUE(IsInError());
}

TEST_F(WorkerXrcTest, AQueueThatIsNotInTheDomainIsAnInvalidRequest) {
  a_.Post(1, Testbed::Sge(to_a_, 0, 100));
  initiator_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 0, 8)}, .xrc_srqn = kA + 1});
  EXPECT_EQ(SendDone().status, kRemInvReqErr);
  EXPECT_TRUE(IsInError());
  EXPECT_EQ(a_.taken(), 0u);
}

TEST_F(WorkerXrcTest, AnEmptyQueueIsReceiverNotReadyUntilSomethingIsPosted) {
  initiator_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 0, 8)}, .xrc_srqn = kA});
  for (int i = 0; i < 10; ++i) bed_.Turn();
  EXPECT_GT(target_.qp->counters().out_of_buffer, 0u);
  a_.Post(1, Testbed::Sge(to_a_, 0, 8));
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a_.Poll(cqe); }));
  EXPECT_EQ(cqe.wr_id, 1u);
}

// Its program may have freed the memory of the queue.
TEST_F(WorkerXrcTest, ATargetThatHasUsedAQueueFindsItNoMoreOnceItHasGone) {
  a_.Post(1, Testbed::Sge(to_a_, 0, 100));
  initiator_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 0, 100)}, .xrc_srqn = kA});
  EXPECT_EQ(SendDone().status, kSuccess);
  a_.Remove();
  EXPECT_EQ(target_.qp->receive_source().shared(), nullptr);
  a_.Post(2, Testbed::Sge(to_a_, 0, 100));
  initiator_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 0, 100)}, .xrc_srqn = kA});
  EXPECT_EQ(SendDone().status, kRemInvReqErr);
  EXPECT_EQ(a_.taken(), 1u);
}

TEST_F(WorkerXrcTest, AQueueThatGoesTakesWhoIsInTheMiddleOfItsMessageAlong) {
  Endpoint& other_initiator = bed_.AddEndpoint(0, {.service = wire::Service::kXrc});
  Endpoint& other_target =
      bed_.AddEndpoint(1, {.service = wire::Service::kXrc, .domain = &domain_});
  bed_.Connect(other_initiator, other_target);
  a_.Post(1, Testbed::Sge(to_a_, 0, 60'000));
  initiator_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 0, 60'000)}, .xrc_srqn = kA});
  while (a_.taken() == 0) bed_.Turn();
  a_.Remove();
  ASSERT_TRUE(bed_.RunUntil([&] { return IsInError(); }));
  uroce_cqe cqe;
  EXPECT_FALSE(a_.Poll(cqe)) << "no queue pair waits for it any more";
  b_.Post(2, Testbed::Sge(to_b_, 0, 100));
  other_initiator.PostSend(
      {.opcode = kSend, .list = {Testbed::Sge(from_, 0, 100)}, .xrc_srqn = kB});
  ASSERT_TRUE(bed_.RunUntil([&] { return b_.Poll(cqe); }));
  EXPECT_EQ(cqe.status, kSuccess);
}

// As if the domain had many targets. A worker without work is asleep, and makes no turns.
TEST_F(WorkerXrcTest, ManyTargetsLearnOfAQueueThatGoesSomeInATurn) {
  constexpr size_t kTargets = 100'000, kMostInATurn = 32;
  domain_.targets().assign(kTargets, target_.qp.get());
  const std::atomic<uint64_t>& turns = bed_.worker->counters().turns;
  bed_.worker->Start();
  const uint64_t before = turns.load();
  a_.Remove();
  const uint64_t after = turns.load();
  bed_.worker->Stop();
  domain_.targets().assign(1, target_.qp.get());
  EXPECT_GE(after - before, kTargets / kMostInATurn);
}

TEST_F(WorkerXrcTest, AQueueThatGoesLeavesTargetsThatAreIdle) {
  a_.Post(1, Testbed::Sge(to_a_, 0, 100));
  initiator_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 0, 100)}, .xrc_srqn = kA});
  EXPECT_EQ(SendDone().status, kSuccess);
  a_.Remove();
  b_.Post(2, Testbed::Sge(to_b_, 0, 100));
  initiator_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 0, 100)}, .xrc_srqn = kB});
  EXPECT_EQ(SendDone().status, kSuccess);
}

TEST_F(WorkerXrcTest, AnImpossibleIndexPutsWhoNamesTheQueueInError) {
  a_.SpoilIndex();
  initiator_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 0, 8)}, .xrc_srqn = kA});
  bed_.Settle();
  EXPECT_TRUE(IsInError());
}

TEST_F(WorkerXrcTest, AllProgramsThatHaveItOpenGetItsEvents) {
  const std::array<RecordStream, 2> streams;
  EventRecords first({streams[0].writer()}, 11), second({streams[1].writer()}, 12);
  target_.qp->reports().AddListener(&first);
  target_.qp->reports().AddListener(&second);
  initiator_.PostSend({.opcode = kWrite,
                       .list = {Testbed::Sge(from_, 0, 8)},
                       .remote_addr = to_a_.iova,
                       .rkey = to_a_.key + 1,
                       .xrc_srqn = kA});
  bed_.Settle();
  for (uint32_t i = 0; i < 2; ++i) {
    std::vector<uint32_t> events;
    while (const std::optional<uroce_event_record> record = streams[i].Read()) {
      EXPECT_EQ(record->element, 11 + i);
      events.push_back(record->event_type);
    }
    EXPECT_EQ(std::ranges::count(events, kQpAccessErr), 1);
  }
  EXPECT_GT(first.written(), 0u);
  target_.qp->reports().RemoveListener(&first);
  target_.qp->reports().RemoveListener(&second);
}

/// Memory that only the helper of the queue's program reaches.
class WorkerXrcCopiedTest : public WorkerXrcTest {
 protected:
  WorkerXrcCopiedTest() {
    bed_.StartCopyHelper(session_a_);
    copied_.pd = kPdA;
    copied_.session = &session_a_;
  }
  bool CopyingForA() const { return session_a_.copy_helper()->in_flight(0) != 0; }

  std::vector<uint8_t> bytes_copied_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& copied_ = bed_.Register(bytes_copied_.data(), kBytes, kAllAccess, MrMode::kCopied);
};

TEST_F(WorkerXrcCopiedTest, CopiesAreMadeByTheQueuesProgram) {
  a_.Post(1, Testbed::Sge(copied_, 0, 5000));
  initiator_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 7, 5000)}, .xrc_srqn = kA});
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a_.Poll(cqe); }));
  EXPECT_EQ(cqe.status, kSuccess);
  EXPECT_EQ(memcmp(bytes_copied_.data(), source_.data() + 7, 5000), 0);
  initiator_.PostSend({.opcode = kRead,
                       .list = {Testbed::Sge(from_, 20'000, 5000)},
                       .remote_addr = copied_.iova,
                       .rkey = copied_.key,
                       .xrc_srqn = kA});
  int done = 0;
  ASSERT_TRUE(bed_.RunUntil([&] { return (done += initiator_.PollSend(cqe) ? 1 : 0) == 2; }));
  EXPECT_EQ(cqe.status, kSuccess);
  EXPECT_EQ(memcmp(source_.data() + 20'000, bytes_copied_.data(), 5000), 0);
}

TEST_F(WorkerXrcCopiedTest, AQueueThatGoesEndsTheCopiesOfItsProgram) {
  initiator_.PostSend({.opcode = kWrite,
                       .list = {Testbed::Sge(from_, 0, 5000)},
                       .remote_addr = copied_.iova,
                       .rkey = copied_.key,
                       .xrc_srqn = kA});
  while (!target_.qp->is_waiting()) bed_.Turn();
  a_.Remove();
  EXPECT_FALSE(target_.qp->is_waiting());
  ASSERT_TRUE(bed_.RunUntil([&] { return IsInError(); }));
  EXPECT_TRUE(bed_.RunUntil([&] { return !CopyingForA(); })) << "an abandoned job";
}

// Its program may free the buffer when it sees the end of the receive.
TEST_F(WorkerXrcCopiedTest, AQueueThatGoesTellsNothingOfAReceiveThatIsStillWritten) {
  CopyHelper& helper = *session_a_.copy_helper();
  SilentStage silent;
  const uint32_t& requested = silent.shared->requested;
  helper.SetStage(std::move(silent.stage));
  copied_.segments[0].is_staged = copied_.segments[0].may_wait = true;
  a_.Post(1, Testbed::Sge(copied_, 0, 5000));
  initiator_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 0, 5000)}, .xrc_srqn = kA});
  ASSERT_TRUE(bed_.RunUntil([&] { return rings::LoadAcquire(requested) != 0; }));
  bed_.worker->Start();  // The worker makes turns while the queue goes.
  a_.Remove();
  for (int turn = 0; turn < 2; ++turn) bed_.worker->Run([] {});
  bed_.worker->Stop();
  EXPECT_TRUE(IsInError());
  uroce_cqe cqe{};
  EXPECT_FALSE(a_.Poll(cqe)) << "status " << +cqe.status;
  EXPECT_TRUE(helper.HasLateWrites());
}

}  // namespace
}  // namespace uroce::datapath
