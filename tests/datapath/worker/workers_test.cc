// SPDX-License-Identifier: Apache-2.0
// Several workers, turn by turn on one thread: whose frame goes where, and what a full way does.
// The first device's queue is driven by worker 0, the second's by worker 1.
#include "pipeline/datapath/worker/worker.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <map>
#include <tuple>

#include "drivers/cable/cable_port.h"
#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/frames/frame_link.h"
#include "pipeline/port/frames.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

constexpr size_t kMemoryBytes = 64 * 1024;

class WorkersBed {
 public:
  explicit WorkersBed(const std::array<drivers::Port*, 2>& joined = {nullptr, nullptr})
      : bed((TestPool(), joined), 2) {}

  Endpoint& Add(int device, uint32_t worker) {
    return bed.AddEndpoint(device, Endpoint::Limits{}, worker);
  }
  void Write(Endpoint& from, uint32_t length, uint64_t wr_id = 1) {
    from.PostSend({.opcode = kWrite,
                   .wr_id = wr_id,
                   .list = {Testbed::Sge(source, 0, length)},
                   .remote_addr = target.iova,
                   .rkey = target.key});
  }
  bool Completes(Endpoint& end) {
    if (!bed.RunUntil([&] { return end.send_ring.Peek() != nullptr; })) return false;
    uroce_cqe cqe;
    return Endpoint::Poll(end.send_ring, cqe) && cqe.status == 0;
  }
  bool Arrived(uint32_t length) const {
    return memcmp(source_bytes.data(), target_bytes.data(), length) == 0;
  }
  const WorkerCounters& CountersOf(uint32_t worker) { return bed.workers->at(worker).counters(); }

  Testbed bed;
  std::vector<uint8_t> source_bytes = Pattern(kMemoryBytes, 1);
  std::vector<uint8_t> target_bytes = std::vector<uint8_t>(kMemoryBytes);
  MemoryRegion& source =
      bed.Register(source_bytes.data(), kMemoryBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& target =
      bed.Register(target_bytes.data(), kMemoryBytes, kAllAccess, MrMode::kMapped);
};

/// Workers of the two ends of a connection.
class WorkersTest : public testing::TestWithParam<std::tuple<uint32_t, uint32_t>> {
 protected:
  uint32_t first() const { return std::get<0>(GetParam()); }
  uint32_t second() const { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Ends, WorkersTest,
                         testing::Combine(testing::Range(0u, 2u), testing::Range(0u, 2u)));

// A superframe goes to the worker of its queue pair whole.
TEST_P(WorkersTest, SuperframesPassLikeFrames) {
  WorkersBed its;
  for (TestPort& port : its.bed.ports) port.superframes = true;
  Endpoint& a = its.Add(0, first());
  Endpoint& b = its.Add(1, second());
  its.bed.Connect(a, b);
  its.Write(a, 50'000);
  ASSERT_TRUE(its.Completes(a));
  EXPECT_TRUE(its.Arrived(50'000));
  EXPECT_EQ(its.bed.devices[1]->Sum(&DeviceCounters::port_rcv_packets), 49u);
  if (first() != 0) return;  // A worker that drives no queue sends frames.
  EXPECT_EQ(its.CountersOf(1).handed_over, second() == 1 ? 0u : 2u);
}

TEST_P(WorkersTest, DataPassesWhicheverWorkersOwnTheEndsAndDriveThePorts) {
  WorkersBed its;
  Endpoint& a = its.Add(0, first());
  Endpoint& b = its.Add(1, second());
  its.bed.Connect(a, b);
  its.Write(a, 50'000);
  ASSERT_TRUE(its.Completes(a));
  EXPECT_TRUE(its.Arrived(50'000));
  const uint64_t handed = its.CountersOf(0).handed_over + its.CountersOf(1).handed_over;
  EXPECT_EQ(handed, its.CountersOf(0).taken_over + its.CountersOf(1).taken_over);
  EXPECT_EQ(handed == 0, first() == 0 && second() == 1) << "only where a port's queue is another's";
}

TEST_P(WorkersTest, OnTheWireFramesGoToTheirOwnersQueueAtOnce) {
  TestPool();
  drivers::Cable wire = drivers::MakeCable({}, {}, {.depth_frames = 16, .queues = 2}).value();
  WorkersBed its({wire.first.get(), wire.second.get()});
  Endpoint& a = its.Add(0, first());
  Endpoint& b = its.Add(1, second());
  its.bed.Connect(a, b);
  its.Write(a, 60'000);
  ASSERT_TRUE(its.Completes(a));
  EXPECT_TRUE(its.Arrived(60'000));
  EXPECT_EQ(its.CountersOf(0).handed_over + its.CountersOf(1).handed_over, 0u);
}

/// A queue pair that moves to the worker of its peer before it is connected.
class MovedQueuePairTest : public testing::Test {
 protected:
  MovedQueuePairTest() {
    for (const auto& port : {wire_.first.get(), wire_.second.get()}) {
      port->UseOwners(its_.bed.workers->owners());
    }
  }
  static drivers::Cable MakeWire() {
    TestPool();
    return drivers::MakeCable({}, {}, {.depth_frames = 16, .queues = 2}).value();
  }
  bool Move(Endpoint& end, uint32_t worker) {
    CompletionRing* const send = end.qp->config().send_ring;
    CompletionRing* const receive = end.qp->config().receive_ring;
    if (!its_.bed.workers->Move(*end.qp, worker, {*send, *receive})) return false;
    end.worker = worker;
    return true;
  }
  uint64_t ReceivedBy(uint32_t worker) {
    uint64_t packets = 0;
    for (const auto& device : its_.bed.devices) {
      packets += device->Of(worker, &DeviceCounters::port_rcv_packets);
    }
    return packets;
  }

  drivers::Cable wire_ = MakeWire();
  WorkersBed its_{{wire_.first.get(), wire_.second.get()}};
  Endpoint& a_ = its_.Add(0, 0);
  Endpoint& b_ = its_.Add(1, 1);
};

TEST_F(MovedQueuePairTest, ItsNewWorkerAloneServesIt) {
  its_.bed.Modify(b_, transport::QpState::kInit);
  b_.PostReceive(5, {Testbed::Sge(its_.target, 0, 64)});
  ASSERT_TRUE(Move(b_, 0));
  EXPECT_EQ(&its_.bed.workers->OwnerOf(b_.qp->qpn()), &its_.bed.workers->at(0));
  its_.bed.Connect(a_, b_);
  a_.PostSend({.opcode = kSend, .wr_id = 1, .list = {Testbed::Sge(its_.source, 0, 64)}});
  ASSERT_TRUE(its_.Completes(a_));
  EXPECT_TRUE(its_.Arrived(64));
  ASSERT_TRUE(its_.bed.RunUntil([&] { return b_.receive_ring.Peek() != nullptr; }));
  uroce_cqe cqe;
  ASSERT_TRUE(b_.PollReceive(cqe));
  EXPECT_EQ(cqe.wr_id, 5u) << "it was posted before the queue pair moved";
  its_.Write(a_, 60'000);
  ASSERT_TRUE(its_.Completes(a_));
  EXPECT_TRUE(its_.Arrived(60'000));
  EXPECT_EQ(ReceivedBy(1), 0u);
  EXPECT_EQ(its_.CountersOf(0).handed_over, 0u);
}

// The numbers in frames say the former workers.
TEST_F(MovedQueuePairTest, FramesReachItFromAnotherWorker) {
  its_.bed.Modify(b_, transport::QpState::kInit);
  ASSERT_TRUE(Move(b_, 0));
  its_.bed.Modify(a_, transport::QpState::kInit);
  ASSERT_TRUE(Move(a_, 1));
  its_.bed.Connect(a_, b_);
  its_.Write(a_, 60'000);
  ASSERT_TRUE(its_.Completes(a_));
  EXPECT_TRUE(its_.Arrived(60'000));
  EXPECT_EQ(its_.CountersOf(0).handed_over + its_.CountersOf(1).handed_over, 0u);
  EXPECT_GT(ReceivedBy(0), ReceivedBy(1)) << "worker 0 has the responder, and 1 the requester";
}

TEST_F(MovedQueuePairTest, AConnectedQueuePairStays) {
  its_.bed.Connect(a_, b_);
  EXPECT_FALSE(Move(b_, 0));
  EXPECT_EQ(&its_.bed.workers->OwnerOf(b_.qp->qpn()), &its_.bed.workers->at(1));
  its_.Write(a_, 60'000);
  ASSERT_TRUE(its_.Completes(a_));
  EXPECT_TRUE(its_.Arrived(60'000));
}

/// A connection whose two ends are on one worker, and move to another one together. With true, its
/// packets need no frames.
class MovedConnectionTest : public MovedQueuePairTest, public testing::WithParamInterface<bool> {
 protected:
  MovedConnectionTest() {
    for (const auto& device : its_.bed.devices) device->leaves_icrc_out = GetParam();
    its_.bed.Modify(b_, transport::QpState::kInit);
    EXPECT_TRUE(MovedQueuePairTest::Move(b_, 0));
    its_.bed.Connect(a_, b_);
  }
  static Workers::Rings RingsOf(const Endpoint& end) {
    return {*end.qp->config().send_ring, *end.qp->config().receive_ring};
  }
  bool Move(uint32_t worker) {
    Workers& workers = *its_.bed.workers;
    const bool moves = workers.Pause(*a_.qp, *b_.qp) &&
                       workers.MovePair(*a_.qp, RingsOf(a_), *b_.qp, RingsOf(b_), worker);
    for (Endpoint* const end : {&a_, &b_}) workers.Resume(*end->qp);
    if (!moves) return false;
    a_.worker = b_.worker = worker;
    return true;
  }
  uint32_t OwnerOf(const Endpoint& end) { return its_.bed.workers->OwnerOf(end.qp->qpn()).index(); }
  /// Takes the completions of WRITEs and receives. Each comes once, and in order.
  void Poll() {
    uroce_cqe cqe;
    while (a_.PollSend(cqe)) ExpectNext(cqe, sent_);
    while (b_.PollReceive(cqe)) ExpectNext(cqe, received_);
  }
  static void ExpectNext(const uroce_cqe& cqe, uint64_t& count) {
    EXPECT_EQ(cqe.status, 0);
    EXPECT_EQ(cqe.wr_id, count);
    ++count;
  }

  uint64_t sent_ = 0;
  uint64_t received_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Ways, MovedConnectionTest, testing::Bool());

TEST_P(MovedConnectionTest, ItsNewWorkerAloneServesIt) {
  ASSERT_TRUE(Move(1));
  EXPECT_EQ(OwnerOf(a_), 1u);
  EXPECT_EQ(OwnerOf(b_), 1u);
  EXPECT_EQ(a_.page->worker.value, 1u) << "the program rings there";
  EXPECT_EQ(b_.page->worker.value, 1u);
  its_.Write(a_, 60'000);
  ASSERT_TRUE(its_.Completes(a_));
  EXPECT_TRUE(its_.Arrived(60'000));
  EXPECT_EQ(ReceivedBy(0), 0u);
  EXPECT_EQ(its_.CountersOf(0).handed_over + its_.CountersOf(1).handed_over, 0u);
}

TEST_P(MovedConnectionTest, WorksThatRangAtTheFormerWorkerAreExecuted) {
  its_.Write(a_, 64);
  ASSERT_TRUE(its_.Completes(a_));
  its_.Write(a_, 60'000);  // Its doorbell is never taken.
  ASSERT_TRUE(Move(1));
  ASSERT_TRUE(its_.Completes(a_));
  EXPECT_TRUE(its_.Arrived(60'000));
}

// Messages, READs and their completions go on wherever the moves fall between.
TEST_P(MovedConnectionTest, MovesInTheMiddleOfMessagesLoseNothing) {
  constexpr uint64_t kRounds = 600;
  uint64_t posted = 0;
  uint64_t receives = 0;
  uint32_t moved = 0;
  for (uint64_t turn = 0; sent_ < kRounds; ++turn) {
    ASSERT_LT(turn, 100'000u);
    for (; posted < kRounds && posted - sent_ < 8; ++posted) {
      const uint8_t opcode = posted % 3 == 0 ? kRead : posted % 3 == 1 ? kWriteWithImm : kSend;
      if (opcode != kRead) b_.PostReceive(receives++, {Testbed::Sge(its_.target, 0, 9000)});
      a_.PostSend({.opcode = opcode,
                   .wr_id = posted,
                   .list = {Testbed::Sge(its_.source, 0, 9000)},
                   .remote_addr = its_.target.iova,
                   .rkey = its_.target.key});
    }
    its_.bed.Turn();
    Poll();
    if (Move(1 - OwnerOf(a_))) ++moved;
  }
  EXPECT_EQ(received_, receives);
  EXPECT_TRUE(its_.Arrived(9000));
  EXPECT_GT(moved, 100u);
  EXPECT_EQ(a_.qp->counters().retransmitted_pkts, 0u);
  EXPECT_EQ(b_.qp->counters().out_of_sequence, 0u);
}

TEST_P(MovedConnectionTest, TimersMoveWithIt) {
  a_.PostSend({.opcode = kSend, .wr_id = 0, .list = {Testbed::Sge(its_.source, 0, 64)}});
  its_.bed.Settle();  // The receiver is not ready: the sender waits for its timer.
  EXPECT_NE(a_.qp->core().NextDeadline(), kNever);
  ASSERT_TRUE(Move(1));
  b_.PostReceive(0, {Testbed::Sge(its_.target, 0, 64)});
  ASSERT_TRUE(its_.bed.RunUntil([&] {
    Poll();
    return sent_ == 1;
  }));
  EXPECT_EQ(received_, 1u);
}

TEST_P(MovedConnectionTest, ItStaysWhileItsProgramHasNotPolled) {
  its_.Write(a_, 64, 0);
  ASSERT_TRUE(its_.bed.RunUntil([&] { return a_.send_ring.Peek() != nullptr; }));
  EXPECT_FALSE(Move(1)) << "its next completion could overtake the first one in another ring";
  EXPECT_EQ(OwnerOf(a_), 0u);
  Poll();
  EXPECT_TRUE(Move(1));
}

TEST_P(MovedConnectionTest, NothingIsReportedInAPauseAndAllBehindIt) {
  its_.Write(a_, 64, 0);
  ASSERT_TRUE(its_.bed.RunUntil([&] { return a_.send_ring.Peek() != nullptr; }));
  ASSERT_TRUE(its_.bed.workers->Pause(*a_.qp, *b_.qp));
  EXPECT_FALSE(a_.qp->IsPolled());
  its_.Write(a_, 64, 1);
  its_.bed.Settle();
  Poll();
  EXPECT_EQ(sent_, 1u);
  EXPECT_TRUE(a_.qp->IsPolled());
  ASSERT_TRUE(its_.bed.workers->MovePair(*a_.qp, RingsOf(a_), *b_.qp, RingsOf(b_), 1));
  a_.worker = b_.worker = 1;
  EXPECT_FALSE(a_.qp->is_paused());
  EXPECT_FALSE(b_.qp->is_paused());
  ASSERT_TRUE(its_.bed.RunUntil([&] {
    Poll();
    return sent_ == 2;
  }));
}

TEST_P(MovedConnectionTest, APauseThatEndsWithoutAMoveLosesNothing) {
  for (uint64_t i = 0; i < 8; ++i) its_.Write(a_, 9000, i);
  its_.bed.Turn();
  ASSERT_TRUE(its_.bed.workers->Pause(*a_.qp, *b_.qp));
  for (int i = 0; i < 20; ++i) its_.bed.Turn();
  const uint64_t before = sent_;
  for (Endpoint* const end : {&a_, &b_}) its_.bed.workers->Resume(*end->qp);
  ASSERT_TRUE(its_.bed.RunUntil([&] {
    Poll();
    return sent_ == 8;
  }));
  EXPECT_EQ(before, 0u);
  EXPECT_EQ(a_.qp->counters().retransmitted_pkts, 0u);
}

TEST_P(MovedConnectionTest, OneEndAloneDoesNotMove) {
  Endpoint& c = its_.Add(0, 0);
  Endpoint& d = its_.Add(1, 0);
  its_.bed.Connect(c, d);
  EXPECT_FALSE(its_.bed.workers->Pause(*a_.qp, *d.qp));
  EXPECT_FALSE(its_.bed.workers->Pause(*a_.qp, *a_.qp));
  EXPECT_FALSE(its_.bed.workers->MovePair(*a_.qp, RingsOf(a_), *b_.qp, RingsOf(b_), 1))
      << "they are not paused";
  EXPECT_FALSE(Move(0)) << "it is there already";
  EXPECT_EQ(OwnerOf(a_), 0u);
}

TEST_P(MovedConnectionTest, AConnectionInErrorStays) {
  its_.bed.Modify(b_, transport::QpState::kErr);
  EXPECT_FALSE(Move(1));
}

TEST_P(MovedConnectionTest, AConnectionThatHasUsedCopiedMemoryStays) {
  std::vector<uint8_t> bytes = Pattern(kMemoryBytes, 3);
  MemoryRegion& copied = its_.bed.Register(bytes.data(), bytes.size(), kAllAccess, MrMode::kCopied);
  its_.bed.StartCopyHelper();
  a_.PostSend({.opcode = kWrite,
               .wr_id = 0,
               .list = {Testbed::Sge(copied, 0, 5000)},
               .remote_addr = its_.target.iova,
               .rkey = its_.target.key});
  ASSERT_TRUE(its_.Completes(a_));
  EXPECT_FALSE(Move(1));
}

TEST_P(WorkersTest, AnOwnAddressLosesNothingOnTheWayToAnotherWorker) {
  WorkersBed its;
  Endpoint& a = its.Add(0, first());
  Endpoint& b = its.Add(0, second());
  its.bed.Connect(a, b);
  for (uint64_t i = 0; i < 32; ++i) its.Write(a, 64 * 1024, i);
  // The receiving worker stands still: the sender is held back.
  const uint32_t sender = first();
  for (int turn = 0; turn < 1000; ++turn) its.bed.workers->at(sender).RunOnce(its.bed.now);
  for (uint64_t i = 0; i < 32; ++i) ASSERT_TRUE(its.Completes(a));
  EXPECT_EQ(a.qp->counters().retransmitted_pkts, 0u);
  EXPECT_EQ(its.bed.devices[0]->Sum(&DeviceCounters::rx_cross_worker_full), 0u);
  EXPECT_EQ(its.bed.devices[0]->Sum(&DeviceCounters::port_rcv_packets),
            its.bed.devices[0]->Sum(&DeviceCounters::port_xmit_packets));
}

TEST(CrossWorkerTest, AFullWayDropsAndCountsAndTheTransportRecovers) {
  constexpr uint32_t kTooMany = 100;
  WorkersBed its;
  its.bed.attributes.timeout = 14;
  Endpoint& a = its.Add(0, 0);
  Endpoint& b = its.Add(1, 0);  // Its frames come in at worker 1.
  its.bed.Connect(a, b);
  std::deque<rte_mbuf*>& arrived = its.bed.ports[1].arrived;
  its.Write(a, 64);
  its.bed.worker->RunOnce(its.bed.now);
  ASSERT_EQ(arrived.size(), 1u);
  while (arrived.size() < CrossWorkerQueues::kDepthFrames + kTooMany) {
    arrived.push_back(rte_pktmbuf_copy(arrived.front(), TestPool(), 0, UINT32_MAX));
  }
  // Worker 0 does nothing meanwhile.
  while (!arrived.empty()) its.bed.workers->at(1).RunOnce(its.bed.now);
  EXPECT_EQ(its.CountersOf(1).handed_over, CrossWorkerQueues::kDepthFrames);
  EXPECT_EQ(its.bed.devices[1]->counters(1).rx_cross_worker_full, kTooMany);
  ASSERT_TRUE(its.Completes(a));
  EXPECT_TRUE(its.Arrived(64));
}

TEST(CrossWorkerTest, TheOwnerChecksTheIcrcAndTheReceiverThatOfFramesForOthers) {
  WorkersBed its;
  Endpoint& a = its.Add(0, 0);
  Endpoint& b = its.Add(1, 0);
  its.bed.Connect(a, b);
  int damaged = 0;
  its.bed.ports[0].filter = [&](rte_mbuf* frame) {
    const size_t at = damaged++ == 0 ? 0u : 60u;  // The destination MAC, then the BTH's end.
    if (damaged <= 2) *rte_pktmbuf_mtod_offset(frame, uint8_t*, at) ^= 4;
    return true;
  };
  its.Write(a, 100);
  ASSERT_TRUE(its.Completes(a));
  EXPECT_EQ(its.bed.devices[1]->counters(1).rx_not_roce, 1u);
  EXPECT_EQ(its.bed.devices[1]->counters(0).rx_icrc_encapsulated, 1u);
}

// To a worker that does not run an emulated network, its time stands still while it is idle.
TEST(CrossWorkerTest, OnlyTheWorkerThatRunsANetworkKnowsItsLag) {
  TestPool();
  Testbed bed({nullptr, nullptr}, 2);
  bed.ports[0].lag = Nanos(5'000'000'000);
  bed.Turn();
  EXPECT_EQ(bed.devices[0]->congestion(0)[0].lag, bed.ports[0].lag);
  EXPECT_EQ(bed.devices[0]->congestion(1)[0].lag, Nanos(0));
}

TEST(RelayTest, AWorkerWithoutAQueueIsHeldBackByAFullPortAndLosesNothing) {
  WorkersBed its;
  Endpoint& a = its.Add(0, 1);  // Worker 0 drives this port.
  Endpoint& b = its.Add(1, 1);
  its.bed.Connect(a, b);
  its.bed.ports[0].room = 0;
  its.bed.attributes.timeout = 20;
  a.hold_bell = true;
  for (int i = 0; i < 40; ++i) its.Write(a, 64 * 1024);
  a.RingBell();
  for (int turn = 0; turn < 1000; ++turn) its.bed.Turn();
  EXPECT_EQ(its.bed.ports[0].sent, 0u);
  const uint64_t queued = its.bed.devices[0]->counters(1).port_xmit_packets;
  EXPECT_GE(queued, 256u) << "the ring of the relay is filled";
  EXPECT_LE(queued, 256u + 2 * kBurst);
  its.bed.ports[0].room = 256;
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(its.Completes(a));
  EXPECT_EQ(its.bed.devices[0]->counters(0).port_xmit_packets, 0u) << "counted by who made it";
}

TEST(RelayTest, TheDriverOfAPortAndItsGuestHaveEqualShares) {
  WorkersBed its;
  Endpoint& own = its.Add(0, 0);
  Endpoint& guest = its.Add(0, 1);
  its.bed.Connect(own, its.Add(1, 0));
  its.bed.Connect(guest, its.Add(1, 1));
  its.bed.ports[0].room = 8;
  for (Endpoint* end : {&own, &guest}) {
    end->hold_bell = true;
    for (int i = 0; i < 60; ++i) its.Write(*end, 64 * 1024);
    end->RingBell();
  }
  std::map<bool, int> sent;
  its.bed.ports[0].filter = [&](rte_mbuf* frame) {
    ++sent[drivers::DestinationOf(*frame) == its.bed.endpoints[2]->qp->qpn()];
    return false;
  };
  while (its.bed.ports[0].sent < 800) its.bed.Turn(Nanos(10'000));
  EXPECT_GT(sent[true], 300);
  EXPECT_GT(sent[false], 300);
}

TEST(HostWorkerTest, FramesForTheStackComeToTheWorkerThatServesIt) {
  WorkersBed its;
  HostLink link(HostLink::Takes::kEverything, 64);
  its.bed.devices[1]->host_link = &link;
  EXPECT_EQ(its.bed.devices[1]->host_worker(), 1u);
  rte_mbuf* frame = rte_pktmbuf_alloc(TestPool());
  memset(rte_pktmbuf_append(frame, 60), 0xff, 60);
  its.bed.ports[1].arrived.push_back(frame);
  its.bed.Settle();
  EXPECT_EQ(link.counters().received, 1u);
  std::vector<uint8_t> bytes(60, 0x11);
  ASSERT_TRUE(link.Send(bytes));
  its.bed.worker->RunOnce(its.bed.now);
  EXPECT_EQ(link.counters().sent, 0u) << "it is not the first worker's";
  its.bed.workers->at(1).RunOnce(its.bed.now);
  EXPECT_EQ(link.counters().sent, 1u);
  its.bed.devices[1]->host_link = nullptr;
}

TEST(HostWorkerTest, OnlyTheWorkerThatServesTheStackWakesIt) {
  WorkersBed its;
  HostLink link(HostLink::Takes::kEverything, 64);
  its.bed.devices[1]->host_link = &link;
  Endpoint& a = its.Add(0, 0);
  Endpoint& b = its.Add(1, 0);  // Its frames come in at worker 1.
  its.bed.Connect(a, b);
  its.Write(a, 64);
  its.bed.workers->at(0).RunOnce(its.bed.now);
  its.bed.workers->at(1).RunOnce(its.bed.now);
  // Worker 1 is in the middle of a burst when worker 0 has frames of the same device.
  ASSERT_TRUE(link.Hand(std::vector<uint8_t>(60, 0x11)));
  its.bed.workers->at(0).RunOnce(its.bed.now);
  EXPECT_EQ(its.CountersOf(0).taken_over, 1u);
  pollfd wake{.fd = link.wait_fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&wake, 1, 0), 0);
  link.Flush();
  EXPECT_EQ(poll(&wake, 1, 0), 1);
  its.bed.devices[1]->host_link = nullptr;
}

TEST(ChangedMacTest, ItIsFollowedByTheQueuePairsOfAllWorkers) {
  WorkersBed its;
  Endpoint& a = its.Add(0, 0);
  Endpoint& b = its.Add(1, 1);
  its.bed.Connect(a, b);
  const Mac other = {2, 0, 0, 0, 0, 9};
  its.bed.workers->ChangeMac(*its.bed.devices[1], other);
  EXPECT_EQ(a.qp->path().destination_mac, other);
  EXPECT_EQ(b.qp->path().source_mac, other);
  its.Write(a, 5000);
  ASSERT_TRUE(its.Completes(a));
}

}  // namespace
}  // namespace uroce::datapath
