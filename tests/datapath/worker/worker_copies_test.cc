// SPDX-License-Identifier: Apache-2.0
// Memory that only the helper reaches: what waits for it, what it takes along, and what a wait must
// not disturb.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rte_mempool.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/memory/copy_lanes.h"
#include "pipeline/datapath/memory/stage.h"
#include "pipeline/datapath/queue/payload.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"
#include "tests/datapath/worker/copied_memory.h"

namespace uroce::datapath {
namespace {

TEST_F(WorkerParkedTest, MappedAndCopiedSegmentsMixInOneMessage) {
  auto [a, b] = bed_.AddPair();
  std::vector<uint8_t> result(300'000);
  MemoryRegion mixed;
  mixed.key = 0x7700;
  mixed.pd = kTestPd;
  mixed.session = bed_.session.get();
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
  auto [a, b] = bed_.AddPair();
  a->PostSend({.opcode = kWrite,
               .wr_id = 1,
               .list = {Testbed::Sge(from_, 0, kBytes)},
               .remote_addr = copied_.iova,
               .rkey = copied_.key});
  uint64_t sent_while_others_waited = 0;
  uint64_t sent = 0;
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] {
    if (b->qp->waiting().packets != 0) sent_while_others_waited += bed_.ports[1].sent - sent;
    sent = bed_.ports[1].sent;
    return a->PollSend(cqe);
  }));
  EXPECT_EQ(cqe.status, 0);
  EXPECT_GT(sent_while_others_waited, 0u);
}

/// Programs whose copies never end.
class WorkerStuckTest : public WorkerParkedTest {
 protected:
  Session& AddHostile() {
    Session& hostile = bed_.AddSession();
    bed_.StartCopyHelper(hostile);
    hostile.copy_helper()->SetStage(SilentStage().stage);
    return hostile;
  }
  const MemoryRegion& Staged(Session& hostile, void* device, size_t bytes) {
    MemoryRegion& stuck = bed_.Register(device, bytes, kAllAccess, MrMode::kCopied);
    stuck.session = &hostile;
    stuck.segments[0].is_staged = stuck.segments[0].may_wait = true;
    return stuck;
  }
  static Endpoint::Limits SmallLimits(Session& hostile) {
    return {.sq_depth = 4, .rq_depth = 4, .cq_depth = 4, .session = &hostile};
  }
};

// The copy of an atomic holds no frame, and a queue pair that is reset leaves its copy behind.
TEST_F(WorkerStuckTest, ResetsLeaveABoundedNumberOfCopiesBehind) {
  Session& hostile = AddHostile();
  alignas(8) uint8_t device[64];  // No thread reads it.
  const MemoryRegion& stuck = Staged(hostile, device, sizeof(device));
  auto& a = bed_.AddEndpoint(0);
  auto& b = bed_.AddEndpoint(1, SmallLimits(hostile));
  const uint32_t frames = rte_mempool_avail_count(TestPool());
  for (uint32_t i = 0; i < frames; ++i) {
    bed_.Connect(a, b);
    a.PostSend({.opcode = kFetchAdd,
                .wr_id = 1,
                .list = {Testbed::Sge(to_, 0, 8)},
                .remote_addr = stuck.iova,
                .rkey = stuck.key});
    for (int turn = 0; turn < 3; ++turn) bed_.Turn();
    for (Endpoint* end : {&a, &b}) bed_.Modify(*end, transport::QpState::kReset);
  }
  EXPECT_GT(hostile.copy_helper()->in_flight(0), 0u);
  EXPECT_LT(hostile.copy_helper()->in_flight(0), frames / 2);
  EXPECT_GT(bed_.devices[1]->Sum(&DeviceCounters::rx_parked_full), 0u);
}

// A peer that hears of success may tell others that the bytes are there.
TEST_F(WorkerStuckTest, AResetAnswersNoRequestWhoseCopyHasNotEnded) {
  Session& hostile = AddHostile();
  alignas(8) uint8_t device[64];  // No thread reads it.
  const MemoryRegion& stuck = Staged(hostile, device, sizeof(device));
  for (const uint8_t opcode : {kWrite, kFetchAdd}) {
    Endpoint& a = bed_.AddEndpoint(0);
    Endpoint& b = bed_.AddEndpoint(1, SmallLimits(hostile));
    bed_.Connect(a, b);
    a.PostSend({.opcode = opcode,
                .wr_id = 1,
                .list = {Testbed::Sge(to_, 0, 8)},
                .remote_addr = stuck.iova,
                .rkey = stuck.key});
    ASSERT_TRUE(bed_.RunUntil([&] { return b.qp->is_waiting(); }));
    bed_.Modify(b, transport::QpState::kReset);
    for (int turn = 0; turn < 10; ++turn) bed_.Turn();
    uroce_cqe cqe{};
    EXPECT_FALSE(a.PollSend(cqe)) << "status " << +cqe.status << " of opcode " << +opcode;
  }
}

// More queue pairs than the pool has frames wait for a copy that does not end.
TEST_F(WorkerStuckTest, AProgramWhoseCopiesNeverEndLeavesFramesToOthers) {
  constexpr int kPairs = 4200;
  Session& hostile = AddHostile();
  uint8_t device[64];  // No thread reads it.
  const MemoryRegion& stuck = Staged(hostile, device, sizeof(device));
  const Endpoint::Limits limits = SmallLimits(hostile);
  const uint32_t before = rte_mempool_avail_count(TestPool());
  for (int i = 0; i < kPairs; ++i) {
    Endpoint* const ends[] = {&bed_.AddEndpoint(0, limits), &bed_.AddEndpoint(1, limits)};
    bed_.Connect(*ends[0], *ends[1]);
    for (Endpoint* end : ends) {
      end->PostSend({.opcode = kWrite,
                     .wr_id = 1,
                     .list = {Testbed::Sge(stuck, 0, 64)},
                     .remote_addr = to_.iova,
                     .rkey = to_.key});
    }
  }
  for (int i = 0; i < 1000; ++i) bed_.Turn();
  EXPECT_EQ(hostile.copy_helper()->stage_counters()->requests, 0u);
  EXPECT_LT(rte_mempool_avail_count(TestPool()), before) << "the copies hold frames";
  EXPECT_GT(rte_mempool_avail_count(TestPool()), before / 2);
  auto [a, b] = bed_.AddPair();
  for (const MemoryRegion* to : {&to_, &copied_}) {
    a->PostSend({.opcode = kWrite,
                 .wr_id = 1,
                 .list = {Testbed::Sge(from_, 0, kBytes)},
                 .remote_addr = to->iova,
                 .rkey = to->key});
    uroce_cqe cqe{};
    ASSERT_TRUE(bed_.RunUntil([&, end = a] { return end->PollSend(cqe); }));
    EXPECT_EQ(cqe.status, 0);
  }
  EXPECT_EQ(target_, source_);
}

/// What waits behind a copy that does not end is counted once, and so long as anything holds it.
TEST_F(WorkerParkedTest, AFrameCountsOnceAlsoWhenACopyOutlivesItsQueuePair) {
  Session& hostile = bed_.AddSession();
  bed_.StartCopyHelper(hostile);
  hostile.copy_helper()->SetStage(SilentStage().stage);
  MemoryRegion& stuck = bed_.Register(target_.data(), kBytes, kAllAccess, MrMode::kCopied);
  stuck.session = &hostile;
  // The first packet is copied while the next ones arrive: these go with the second job.
  MrSegment rest = stuck.segments[0];
  stuck.segments[0].length_bytes = 1024;
  rest.iova += 1024;
  rest.app_addr += 1024;
  rest.length_bytes -= 1024;
  rest.is_staged = rest.may_wait = true;
  stuck.segments.push_back(rest);
  Endpoint& a = bed_.AddEndpoint(0);
  Endpoint& b = bed_.AddEndpoint(1, {.session = &hostile});
  bed_.Connect(a, b);
  Write(a, stuck);
  ASSERT_TRUE(bed_.RunUntil([&] {
    const CopyJob* const job = b.qp->waiting().in_flight;
    return job != nullptr && job->batched_count != 0 && job->pieces[0].is_staged;
  }));
  for (int i = 0; i < 1000; ++i) bed_.Turn();
  const ProgramFrames& frames = b.qp->program().frames;
  const uint32_t batched = b.qp->waiting().in_flight->batched_count;
  EXPECT_EQ(frames.waiting, 1 + b.qp->waiting().packets);
  bed_.Modify(b, transport::QpState::kReset);
  EXPECT_EQ(b.qp->waiting().packets, 0u);
  EXPECT_EQ(frames.waiting, 1 + batched);
  EXPECT_EQ(frames.user->waiting, frames.waiting);
}

/// Twenty-four connections, more than which would fill the room for packets that wait. Nothing is
/// sent again in time: a packet that is lost stays lost.
class WorkerHeldTest : public WorkerParkedTest {
 protected:
  WorkerHeldTest() {
    bed_.attributes.timeout = 0;
    for (int i = 0; i < 24; ++i) pairs_.push_back(bed_.AddPair());
  }
  void WriteAll(Endpoint& endpoint, const MemoryRegion& to) {
    endpoint.PostSend({.opcode = kWrite,
                       .wr_id = 1,
                       .list = {Testbed::Sge(from_, 0, kBytes)},
                       .remote_addr = to.iova,
                       .rkey = to.key});
  }
  bool IsWritten(Endpoint& endpoint) {
    uroce_cqe cqe{};
    return bed_.RunUntil([&] { return endpoint.PollSend(cqe); }) && cqe.status == 0;
  }
  uint64_t Dropped() { return bed_.devices[1]->Sum(&DeviceCounters::rx_parked_full); }
  /// As if its helper never came back.
  static void HangUp(Endpoint& endpoint) { endpoint.qp->set_wait(WaitKind::kGather); }

  std::vector<std::pair<Endpoint*, Endpoint*>> pairs_;
};

TEST_F(WorkerHeldTest, PeersWaitForTheHelperAndNothingIsLost) {
  for (auto [a, b] : pairs_) WriteAll(*a, copied_);
  for (auto [a, b] : pairs_) {
    ASSERT_TRUE(IsWritten(*a));
    EXPECT_EQ(a->qp->counters().retransmitted_pkts, 0u);
  }
  EXPECT_EQ(Dropped(), 0u);
  EXPECT_EQ(target_, source_);
}

TEST_F(WorkerHeldTest, AHelperThatNeverComesBackHoldsItsOwnPeersAlone) {
  for (size_t i = 0; i < 16; ++i) {
    HangUp(*pairs_[i].second);
    WriteAll(*pairs_[i].first, copied_);
  }
  bed_.Settle();
  EXPECT_EQ(Dropped(), 0u);
  for (size_t i = 16; i < 24; ++i) {
    WriteAll(*pairs_[i].first, i % 2 == 0 ? copied_ : to_);
    ASSERT_TRUE(IsWritten(*pairs_[i].first)) << "copied and mapped memory of others";
  }
  EXPECT_EQ(Dropped(), 0u);
}

TEST_F(WorkerHeldTest, PeersGoOnWhenThoseThatHeldThemAreReset) {
  for (auto [a, b] : pairs_) {
    HangUp(*b);
    WriteAll(*a, copied_);
  }
  bed_.Settle();
  const uint64_t sent = bed_.ports[0].sent;
  for (auto [a, b] : pairs_) bed_.Modify(*b, transport::QpState::kReset);
  bed_.Settle();
  EXPECT_GT(bed_.ports[0].sent, sent);
}

TEST_F(WorkerHeldTest, PeersOfAHelperThatNeverComesBackRunOutOfRetries) {
  bed_.attributes.timeout = 14;
  auto [a, b] = bed_.AddPair();
  HangUp(*b);
  WriteAll(*a, copied_);
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a->PollSend(cqe); }));
  EXPECT_EQ(cqe.status, static_cast<uint8_t>(transport::WcStatus::kRetryExcErr));
  EXPECT_EQ(Dropped(), 0u);
}

TEST_F(WorkerCopiesTest, OneJobServesManyPackets) {
  auto [a, b] = bed_.AddPair();
  MoveBothWays(*a);
  EXPECT_LT(bed_.session->copies_begun(), 2 * 2 * kPackets / 4);
}

TEST_F(WorkerCopiesTest, LostPacketsAreGatheredAndPlacedAgain) {
  auto [a, b] = bed_.AddPair();
  bed_.LoseOneOf(13);
  MoveBothWays(*a);
}

TEST_F(WorkerCopiesTest, PacketsBeforeAHoleArePlacedAndTheOneInItIsRefused) {
  constexpr size_t kHole = 40 * 1024;
  constexpr size_t kSpan = 44 * 1024;  // One copy job takes the hole along.
  void* span = mmap(nullptr, kSpan, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(span, MAP_FAILED);
  MemoryRegion& holed = bed_.Register(span, kSpan, kAllAccess, MrMode::kCopied);
  ASSERT_EQ(munmap(static_cast<uint8_t*>(span) + kHole, kSpan - kHole), 0);
  uroce_cqe cqe;
  auto [a, b] = bed_.AddPair();
  a->PostSend({.opcode = kWrite,
               .wr_id = 1,
               .list = {Testbed::Sge(sent_, 0, kSpan)},
               .remote_addr = holed.iova,
               .rkey = holed.key});
  ASSERT_TRUE(bed_.RunUntil([&] { return a->PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 10) << "IBV_WC_REM_ACCESS_ERR";
  EXPECT_EQ(memcmp(span, source_.data(), kHole), 0);
  auto [c, d] = bed_.AddPair();
  c->PostSend({.opcode = kWrite,
               .wr_id = 2,
               .list = {Testbed::Sge(holed, 0, kSpan)},
               .remote_addr = copied_.iova,
               .rkey = copied_.key});
  ASSERT_TRUE(bed_.RunUntil([&] { return c->PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 4) << "IBV_WC_LOC_PROT_ERR";
  munmap(span, kHole);
}

TEST_F(WorkerCopiesTest, FramesGoBackWhereverAQueuePairEnds) {
  const uint32_t before = rte_mempool_in_use_count(TestPool());
  for (int turns = 0; turns < 40; ++turns) {
    auto [a, b] = bed_.AddPair();
    a->PostSend({.opcode = kWrite,
                 .wr_id = 1,
                 .list = {Testbed::Sge(sent_, 0, 200'000)},
                 .remote_addr = copied_.iova,
                 .rkey = copied_.key});
    b->PostSend({.opcode = kRead,
                 .wr_id = 2,
                 .list = {Testbed::Sge(read_, 0, 200'000)},
                 .remote_addr = asked_.iova,
                 .rkey = asked_.key});
    while (!bed_.Copying()) bed_.Turn();
    for (int i = 0; i < turns; ++i) bed_.Turn();
    bed_.RemoveEndpoints();
    const uint64_t generation = bed_.session->copy_generation();
    while (!bed_.session->CopiesDone(generation)) sched_yield();
    bed_.Settle();
    ASSERT_LE(rte_mempool_in_use_count(TestPool()), before + kBurst)
        << "but for a burst of empty ones";
  }
}

TEST_F(WorkerParkedTest, MemoryThatIsGoneIsAnAccessError) {
  auto [a, b] = bed_.AddPair();
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
  auto [c, d] = bed_.AddPair();
  c->PostSend({.opcode = kWrite,
               .wr_id = 2,
               .list = {Testbed::Sge(gone, 0, 64)},
               .remote_addr = to_.iova,
               .rkey = to_.key});
  ASSERT_TRUE(bed_.RunUntil([&] { return c->PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 4) << "IBV_WC_LOC_PROT_ERR";
}

// The address that the peer names is aligned: the region calls its fourth byte 0.
TEST_F(WorkerParkedTest, AtomicsOnMemoryThatIsNotAlignedAreRefused) {
  for (const MrMode mode : {MrMode::kMapped, MrMode::kCopied}) {
    auto [a, b] = bed_.AddPair();
    MemoryRegion& odd = bed_.Register(target_.data() + 4, 64, kAllAccess, mode);
    odd.iova = odd.segments[0].iova = 0;
    const std::vector<uint8_t> before = target_;
    a->PostSend({.opcode = kFetchAdd,
                 .list = {Testbed::Sge(from_, 0, 8)},
                 .remote_addr = 8,
                 .rkey = odd.key,
                 .compare_add = 1});
    uroce_cqe cqe{};
    ASSERT_TRUE(bed_.RunUntil([&, its = a] { return its->PollSend(cqe); }));
    EXPECT_EQ(cqe.status, kRemAccessErr);
    EXPECT_EQ(target_, before);
  }
}

/// The program could end the daemon, so that workers access its memory themselves.
class WorkerAccessTest : public WorkerCopiesTest {
 protected:
  WorkerAccessTest() : WorkerCopiesTest(/*by_workers=*/true) {}

  /// The result of one work of `endpoint`.
  uroce_cqe Complete(Endpoint& endpoint) {
    uroce_cqe cqe{};
    EXPECT_TRUE(bed_.RunUntil([&] { return endpoint.PollSend(cqe); }));
    return cqe;
  }
  void Add(Endpoint& endpoint, const MemoryRegion& to, uint64_t offset, uint64_t addend) {
    endpoint.PostSend({.opcode = kFetchAdd,
                       .wr_id = 1,
                       .list = {Testbed::Sge(read_, 0, 8)},
                       .remote_addr = to.iova + offset,
                       .rkey = to.key,
                       .compare_add = addend});
  }
  /// The system calls by which this process has read, as the kernel counts them.
  static uint64_t ReadCalls() {
    std::ifstream file("/proc/self/io");
    std::string name;
    uint64_t count = 0;
    while (file >> name >> count && name != "syscr:") {
    }
    EXPECT_EQ(name, "syscr:");
    return count;
  }
  uint64_t WordAt(const std::vector<uint8_t>& bytes, size_t offset) {
    uint64_t word = 0;
    memcpy(&word, bytes.data() + offset, sizeof(word));
    return word;
  }
};

TEST_F(WorkerAccessTest, NoQueuePairWaits) {
  auto [a, b] = bed_.AddPair();
  MoveBothWays(*a);
  EXPECT_EQ(bed_.session->copies_begun(), 0u);
}

TEST_F(WorkerAccessTest, OneSystemCallReadsManyPackets) {
  auto [a, b] = bed_.AddPair();
  const uint64_t before = ReadCalls();
  MoveBothWays(*a);
  EXPECT_LT(ReadCalls() - before, 2 * kPackets / 4);
}

TEST_F(WorkerAccessTest, LostPacketsAreGatheredAndPlacedAgain) {
  auto [a, b] = bed_.AddPair();
  bed_.LoseOneOf(13);
  MoveBothWays(*a);
  EXPECT_EQ(bed_.session->copies_begun(), 0u);
}

TEST_F(WorkerAccessTest, MappedAndCopiedPiecesMixInOnePacket) {
  auto [a, b] = bed_.AddPair();
  a->PostSend({.opcode = kWrite,
               .wr_id = 1,
               .list = {Testbed::Sge(from_, 0, 100), Testbed::Sge(sent_, 100, 101),
                        Testbed::Sge(from_, 201, 99), Testbed::Sge(sent_, 300, 700)},
               .remote_addr = copied_.iova + 3,
               .rkey = copied_.key});
  EXPECT_EQ(Complete(*a).status, 0);
  EXPECT_EQ(memcmp(target_.data() + 3, source_.data(), 1000), 0);
  EXPECT_EQ(bed_.session->copies_begun(), 0u);
}

/// The program has copy lanes, and does not serve them.
class WorkerLanesTest : public WorkerAccessTest {
 protected:
  WorkerLanesTest() {
    const uint64_t length = CopyLanes::BytesFor(1);
    const Fd file = *MakeSharedFile("copies", length);
    Mapping mapping = *MapShared(file.get(), length);
    const auto* const copies = reinterpret_cast<const uroce_copies*>(mapping.data());
    lane_ = reinterpret_cast<const uroce_copy_lane*>(copies + 1);
    bed_.session->copy_helper()->SetLanes(std::make_unique<CopyLanes>(
        *GuardedMapping::Make(std::move(mapping), MappingGuard::kNoOwner), 1));
  }
  /// WRITEs of 64 bytes at once, apart from each other.
  void WriteSmall(int count) {
    auto [a, b] = bed_.AddPair();
    for (int i = 0; i < count; ++i) {
      a->PostSend({.opcode = kWrite,
                   .wr_id = 1,
                   .list = {Testbed::Sge(from_, i * 256, 64)},
                   .remote_addr = copied_.iova + i * 256,
                   .rkey = copied_.key});
    }
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(Complete(*a).status, 0);
      EXPECT_EQ(memcmp(target_.data() + i * 256, source_.data() + i * 256, 64), 0);
    }
  }

  const uroce_copy_lane* lane_ = nullptr;
};

TEST_F(WorkerLanesTest, LargeCopiesAreLeftToTheProgramAndThenToTheHelper) {
  auto [a, b] = bed_.AddPair();
  MoveBothWays(*a);
  EXPECT_GT(bed_.session->copies_begun(), 0u);
  EXPECT_GT(bed_.session->copy_helper()->lane_counters()->left_to_helper, 0u);
}

// Such as data and a flag behind them.
TEST_F(WorkerLanesTest, TwoSmallMessagesAreTheWorkersAndManyTheProgramsInOneJob) {
  WriteSmall(2);
  EXPECT_EQ(bed_.session->copies_begun(), 0u);
  WriteSmall(16);
  EXPECT_EQ(bed_.session->copies_begun(), 1u);
  const uroce_copy_request& request = lane_->requests[0];
  ASSERT_EQ(request.piece_count, 32u) << "each message ends with its last word";
  for (uint32_t i = 1; i < 32; i += 2) EXPECT_EQ(request.pieces[i].length, 8u);
}

// As a buffer of the heap is that begins within a page.
TEST_F(WorkerLanesTest, ThePartsOfMappedMemoryThatAreCopiedKeepNoQueuePairWaiting) {
  auto [a, b] = bed_.AddPair();
  for (const bool copied_first : {true, false}) {
    const uint32_t border = copied_first ? 100 : 49'900;
    a->PostSend({.opcode = kWrite,
                 .wr_id = 1,
                 .list = {Testbed::Sge(copied_first ? sent_ : from_, 0, border),
                          Testbed::Sge(copied_first ? from_ : sent_, border, 50'000 - border)},
                 .remote_addr = to_.iova,
                 .rkey = to_.key});
    EXPECT_EQ(Complete(*a).status, 0);
    EXPECT_EQ(memcmp(target_.data(), source_.data(), 50'000), 0);
    EXPECT_EQ(bed_.session->copies_begun(), 0u) << copied_first;
  }
}

TEST_F(WorkerAccessTest, AtomicsOfOneWorkerAreExecutedAtOnce) {
  auto [a, b] = bed_.AddPair();
  const uint64_t before = WordAt(target_, 64);
  Add(*a, copied_, 64, 5);
  EXPECT_EQ(Complete(*a).status, 0);
  EXPECT_EQ(WordAt(target_, 64), before + 5);
  EXPECT_EQ(WordAt(read_bytes_, 0), before);
  EXPECT_EQ(bed_.session->copies_begun(), 0u);
}

TEST_F(WorkerAccessTest, MemoryThatMayWaitIsLeftToTheHelper) {
  auto [a, b] = bed_.AddPair();
  for (MemoryRegion* region : {&sent_, &copied_, &read_, &asked_}) {
    region->segments[0].may_wait = true;
  }
  MoveBothWays(*a);
  const uint64_t begun = bed_.session->copies_begun();
  EXPECT_GT(begun, 0u);
  Add(*a, copied_, 64, 5);
  EXPECT_EQ(Complete(*a).status, 0);
  EXPECT_GT(bed_.session->copies_begun(), begun);
}

TEST_F(WorkerAccessTest, MemoryThatIsGoneIsAnAccessError) {
  auto [a, b] = bed_.AddPair();
  void* hole = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  MemoryRegion& gone = bed_.Register(hole, 4096, kAllAccess, MrMode::kCopied);
  munmap(hole, 4096);
  a->PostSend({.opcode = kWrite,
               .wr_id = 1,
               .list = {Testbed::Sge(sent_, 0, 64)},
               .remote_addr = gone.iova,
               .rkey = gone.key});
  EXPECT_EQ(Complete(*a).status, kRemAccessErr);
  auto [c, d] = bed_.AddPair();
  c->PostSend({.opcode = kWrite,
               .wr_id = 2,
               .list = {Testbed::Sge(gone, 0, 64)},
               .remote_addr = copied_.iova,
               .rkey = copied_.key});
  EXPECT_EQ(Complete(*c).status, 4) << "IBV_WC_LOC_PROT_ERR";
  auto [e, f] = bed_.AddPair();
  Add(*e, gone, 0, 1);
  EXPECT_EQ(Complete(*e).status, kRemAccessErr);
}

/// One end in a domain with the copied memory of another program.
class WorkerForeignMemoryTest : public WorkerParkedTest {
 protected:
  WorkerForeignMemoryTest() { bed_.Connect(a_, foreign_); }
  /// How the one work of `end` ended.
  uint8_t StatusOf(Endpoint& end) {
    uroce_cqe cqe{};
    EXPECT_TRUE(bed_.RunUntil([&] { return end.PollSend(cqe); }));
    return cqe.status;
  }

  Session& other_ = bed_.AddSession();
  Endpoint& a_ = bed_.AddEndpoint(0);
  Endpoint& foreign_ = bed_.AddEndpoint(1, {.session = &other_});
};

TEST_F(WorkerForeignMemoryTest, APeersWriteIsRefusedWhereThereIsNoHelper) {
  Write(a_);
  EXPECT_EQ(StatusOf(a_), kRemAccessErr);
}

TEST_F(WorkerForeignMemoryTest, APeersWriteIsRefusedWhereThereIsAnothersHelper) {
  bed_.StartCopyHelper(other_);
  Write(a_);
  EXPECT_EQ(StatusOf(a_), kRemAccessErr);
  EXPECT_EQ(other_.copies_begun(), 0u) << "its address is another place there";
}

TEST_F(WorkerForeignMemoryTest, APeersAtomicIsRefused) {
  bed_.StartCopyHelper(other_);
  a_.PostSend({.opcode = kFetchAdd,
               .list = {Testbed::Sge(from_, 0, 8)},
               .remote_addr = copied_.iova,
               .rkey = copied_.key,
               .compare_add = 1});
  EXPECT_EQ(StatusOf(a_), kRemAccessErr);
  EXPECT_EQ(other_.copies_begun(), 0u);
}

TEST_F(WorkerForeignMemoryTest, APeersReadIsRefused) {
  bed_.StartCopyHelper(other_);
  a_.PostSend({.opcode = kRead,
               .list = {Testbed::Sge(from_, 0, 5000)},
               .remote_addr = copied_.iova,
               .rkey = copied_.key});
  EXPECT_EQ(StatusOf(a_), kRemAccessErr);
  EXPECT_EQ(other_.copies_begun(), 0u);
}

TEST_F(WorkerForeignMemoryTest, AWorkFromItIsALocalError) {
  foreign_.PostSend({.opcode = kWrite,
                     .list = {Testbed::Sge(copied_, 0, 5000)},
                     .remote_addr = to_.iova,
                     .rkey = to_.key});
  EXPECT_EQ(StatusOf(foreign_), kLocProtErr);
}

TEST_F(WorkerForeignMemoryTest, AReceiveIntoItIsALocalError) {
  foreign_.PostReceive(1, {Testbed::Sge(copied_, 0, 5000)});
  a_.PostSend({.opcode = kSend, .list = {Testbed::Sge(from_, 0, 5000)}});
  uroce_cqe cqe{};
  ASSERT_TRUE(bed_.RunUntil([&] { return foreign_.PollReceive(cqe); }));
  EXPECT_EQ(cqe.status, kLocProtErr);
}

TEST_F(WorkerParkedTest, ModifyWaitsForTheCopyAndIsNotLost) {
  auto [a, b] = bed_.AddPair();
  WriteUntilCopying(*a);
  bed_.Modify(*b, transport::QpState::kErr);
  EXPECT_EQ(b->page_state(), 6u);
  EXPECT_EQ(b->qp->state(), transport::QpState::kErr);
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a->PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 12) << "the peer answers no more";
  EXPECT_EQ(b->qp->core().state(), transport::QpState::kErr);
}

TEST_F(WorkerParkedTest, AgreementIsNotLostToAModifyThatWaits) {
  auto [a, b] = bed_.AddPair();
  WriteUntilCopying(*a);
  bed_.Modify(*b, transport::QpState::kRts);
  ASSERT_TRUE(b->qp->waiting().modification);
  bed_.worker->SetSelectiveRepeat([](const QueuePair&) -> std::optional<bool> { return true; });
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a->PollSend(cqe); }));
  EXPECT_FALSE(b->qp->waiting().modification);
  EXPECT_TRUE(b->qp->core().attributes().selective_repeat);
}

TEST_F(WorkerParkedTest, RemovalDoesNotWaitForTheCopy) {
  auto [a, b] = bed_.AddPair();
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
  EXPECT_GT(bed_.session->copies_begun(), 0u);
  const uint64_t generation = bed_.session->copy_generation();
  while (!bed_.session->CopiesDone(generation)) sched_yield();
  bed_.Settle();
}

}  // namespace
}  // namespace uroce::datapath
