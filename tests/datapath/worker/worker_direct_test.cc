// SPDX-License-Identifier: Apache-2.0
// Packets that go from one queue pair of a worker to another without a frame, those that need one,
// and all who keep a packet or look at its bytes.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rte_mempool.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "drivers/cable/cable_port.h"
#include "drivers/fault/fault_port.h"
#include "pipeline/datapath/capture/packet_records.h"
#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/queue/payload.h"
#include "pipeline/datapath/worker/stall_watch.h"
#include "pipeline/os/fd.h"
#include "pipeline/port/frames.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kPacketBytes = 1024;
constexpr uint32_t kMessageBytes = 3 * kPacketBytes;

/// A port that counts the frames that it takes.
class Spy final : public drivers::Port {
 public:
  explicit Spy(std::unique_ptr<drivers::Port> port) : port_(std::move(port)) {}

  uint16_t queues() const override { return port_->queues(); }
  uint16_t ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override {
    return port_->ReceiveBurst(queue, frames, count, now);
  }
  uint16_t TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override {
    const uint16_t taken = port_->TransmitBurst(queue, frames, std::min(count, takes), now);
    taken_frames += taken;
    return taken;
  }
  uint16_t TransmitRoom(uint16_t queue) const override { return port_->TransmitRoom(queue); }
  const void* outlet(uint16_t queue) const override { return port_->outlet(queue); }
  const void* inlet(uint16_t queue) const override { return port_->inlet(queue); }
  bool IsOutletEmpty(uint16_t queue) const override { return port_->IsOutletEmpty(queue); }
  drivers::PortInfo Info() const override { return port_->Info(); }

  uint32_t taken_frames = 0;
  uint16_t takes = UINT16_MAX;  ///< Of a burst.

 private:
  const std::unique_ptr<drivers::Port> port_;
};

/// Both ends of a cable, behind ports that could make faults.
struct Wire {
  explicit Wire(uint16_t queues = 1) {
    TestPool();
    drivers::Cable cable = drivers::MakeCable({}, {}, {.queues = queues}).value();
    for (std::unique_ptr<drivers::Port>* end : {&cable.first, &cable.second}) {
      auto fault =
          std::make_unique<drivers::FaultPort>(std::move(*end), drivers::FaultConfig{}, TestPool());
      faults.push_back(fault.get());
      spies.push_back(std::make_unique<Spy>(std::move(fault)));
    }
  }

  std::vector<drivers::FaultPort*> faults;
  std::vector<std::unique_ptr<Spy>> spies;
};

class WorkerDirectTest : public testing::Test {
 protected:
  WorkerDirectTest() {
    for (const auto& device : bed_.devices) device->leaves_icrc_out = true;
    bed_.attributes.path_mtu_bytes = kPacketBytes;
    bed_.Connect(a_, b_);
  }
  ~WorkerDirectTest() override { bed_.RemoveEndpoints(); }

  MemoryRegion& Source(MrMode mode = MrMode::kMapped) {
    return bed_.Register(source_.data(), source_.size(), kAllAccess, mode);
  }
  MemoryRegion& Target(MrMode mode = MrMode::kMapped) {
    return bed_.Register(target_.data(), target_.size(), kAllAccess, mode);
  }
  static void WriteBy(Endpoint& sender, const MemoryRegion& from, const MemoryRegion& to,
                      uint32_t bytes = kMessageBytes) {
    sender.PostSend({.opcode = kWrite,
                     .list = {Testbed::Sge(from, 0, bytes)},
                     .remote_addr = to.iova,
                     .rkey = to.key});
  }
  void Write(const MemoryRegion& from, const MemoryRegion& to, uint32_t bytes = kMessageBytes) {
    WriteBy(a_, from, to, bytes);
  }
  bool Arrived(uint32_t bytes = kMessageBytes) const {
    return std::equal(pattern_.begin(), pattern_.begin() + bytes, target_.begin());
  }
  /// The helper has a job of the peer, which may still be under way, and it reads no memory of the
  /// sender.
  void ExpectJobOfWholeFrames() const {
    const CopyJob* const job = b_.qp->waiting().in_flight;
    ASSERT_NE(job, nullptr);
    for (uint32_t i = 0; i < job->piece_count; ++i) {
      const uint8_t* const bytes = job->pieces[i].bytes;
      EXPECT_TRUE(bytes < source_.data() || bytes >= source_.data() + source_.size()) << i;
    }
  }
  /// The program writes to its buffer before its work has completed, which none should.
  void Spoil() { std::ranges::fill(source_, uint8_t{0xee}); }
  /// Of the sender's next completion; -1: there is none.
  int NextStatus() {
    uroce_cqe cqe;
    return a_.PollSend(cqe) ? cqe.status : -1;
  }
  bool Completed() { return NextStatus() == IBV_WC_SUCCESS; }
  /// Those that went from the first device to the second.
  uint32_t frames() const { return wire_.spies[0]->taken_frames; }
  /// Has packets of `endpoint` go as frames, or not.
  static void Record(Endpoint& endpoint, bool is_recorded) {
    endpoint.qp->set_history(is_recorded ? std::make_unique<PacketHistory>(64) : nullptr);
  }

  Wire wire_;
  Testbed bed_{{wire_.spies[0].get(), wire_.spies[1].get()}};
  Endpoint& a_ = bed_.AddEndpoint(0);
  Endpoint& b_ = bed_.AddEndpoint(1);
  const std::vector<uint8_t> pattern_ = Pattern(kMessageBytes, 1);
  std::vector<uint8_t> source_ = pattern_;
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kMessageBytes);
};

TEST_F(WorkerDirectTest, AMessageArrivesAndIsAcknowledgedInTheTurnThatSendsIt) {
  Write(Source(), Target());
  bed_.Turn();
  EXPECT_TRUE(Arrived());
  EXPECT_TRUE(Completed());
  Spoil();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(frames(), 0u);
  EXPECT_EQ(wire_.spies[1]->taken_frames, 0u);
}

TEST_F(WorkerDirectTest, SendsGoTheSameWay) {
  const MemoryRegion& to = Target();
  b_.PostReceive(1, {Testbed::Sge(to, 0, kMessageBytes)});
  a_.PostSend({.list = {Testbed::Sge(Source(), 0, kMessageBytes)}});
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(frames(), 0u);
}

TEST_F(WorkerDirectTest, InlineBytesGoTheSameWay) {
  const std::string bytes(pattern_.begin(), pattern_.begin() + 13);
  const MemoryRegion& to = Target();
  a_.PostSend({.opcode = kWrite,
               .flags = UROCE_SEND_SIGNALED | UROCE_SEND_INLINE,
               .inline_data = bytes,
               .remote_addr = to.iova,
               .rkey = to.key});
  bed_.Settle();
  EXPECT_TRUE(Arrived(13));
  EXPECT_EQ(target_[13], 0);
  EXPECT_EQ(frames(), 0u);
}

TEST_F(WorkerDirectTest, ADeviceReachesItself) {
  Endpoint& other = bed_.AddEndpoint(0);
  Endpoint& own = bed_.AddEndpoint(0);
  bed_.Connect(own, other);
  WriteBy(own, Source(), Target());
  bed_.Turn();
  EXPECT_TRUE(Arrived());
  Spoil();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
}

TEST_F(WorkerDirectTest, AResponseHasTheBytesOfItsMoment) {
  const MemoryRegion& from = Source();
  b_.PostSend({.opcode = kRead,
               .list = {Testbed::Sge(Target(), 0, kMessageBytes)},
               .remote_addr = from.iova,
               .rkey = from.key});
  EXPECT_TRUE(bed_.RunUntil([this] { return Arrived(); }));
  Spoil();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(frames(), 0u);
}

TEST_F(WorkerDirectTest, PiecesOfAMessageAreJoined) {
  const MemoryRegion& from = Source();
  const MemoryRegion& to = Target();
  a_.PostSend({.opcode = kWrite,
               .list = {Testbed::Sge(from, 0, 1500), Testbed::Sge(from, 1500, 1572)},
               .remote_addr = to.iova,
               .rkey = to.key});
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(frames(), 0u);
}

TEST_F(WorkerDirectTest, AnAddressThatIsNotAccessibleFailsTheWork) {
  const MemoryRegion& from = Source();
  const MemoryRegion& to = Target();
  a_.PostSend({.opcode = kWrite,
               .list = {Testbed::Sge(from, 1, kMessageBytes)},
               .remote_addr = to.iova,
               .rkey = to.key});
  bed_.Settle();
  EXPECT_EQ(NextStatus(), IBV_WC_LOC_PROT_ERR);
}

TEST_F(WorkerDirectTest, AKeyThatThePeerDoesNotGrantFailsBothEnds) {
  MemoryRegion& to = Target();
  to.access = kLocalWrite;
  Write(Source(), to);
  bed_.Settle();
  EXPECT_EQ(NextStatus(), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b_.qp->state(), transport::QpState::kErr);
  EXPECT_FALSE(Arrived(1));
}

TEST_F(WorkerDirectTest, CountersSayWhatTheySayOfFrames) {
  using Counter = std::atomic<uint64_t> DeviceCounters::*;
  constexpr std::array<Counter, 4> kCounters{
      &DeviceCounters::port_xmit_packets, &DeviceCounters::port_xmit_bytes,
      &DeviceCounters::port_rcv_packets, &DeviceCounters::port_rcv_bytes};
  const MemoryRegion& from = Source();
  const MemoryRegion& to = Target();
  std::array<std::vector<uint64_t>, 2> grown;
  for (const bool as_frames : {false, true}) {
    Record(a_, as_frames);
    std::vector<uint64_t> before;
    const auto note = [&](std::vector<uint64_t>& values) {
      for (const auto& device : bed_.devices) {
        for (const Counter counter : kCounters) values.push_back(device->Sum(counter));
      }
      for (const Endpoint* end : {&a_, &b_}) {
        const QueuePair::Traffic& traffic = end->qp->traffic();
        values.insert(values.end(), {traffic.sent_packets, traffic.sent_bytes,
                                     traffic.received_packets, traffic.received_bytes});
      }
    };
    note(before);
    Write(from, to, kMessageBytes - 5);
    EXPECT_TRUE(bed_.RunUntil([this] { return Completed(); }));
    note(grown[as_frames]);
    for (size_t i = 0; i < before.size(); ++i) grown[as_frames][i] -= before[i];
  }
  EXPECT_EQ(frames(), 3u);
  EXPECT_EQ(grown[0], grown[1]);
}

// Of memory that is mapped twice, the worker does not see that two ranges are the same.
TEST_F(WorkerDirectTest, AFileThatIsMappedTwiceIsWrittenOverItselfAsItWas) {
  constexpr size_t kBytes = 8192;
  constexpr uint32_t kShift = 8;
  const Fd file(memfd_create("twice", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), kBytes), 0);
  std::array<uint8_t*, 2> views;
  std::array<MemoryRegion*, 2> regions;
  for (size_t i = 0; i < 2; ++i) {
    void* const view = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    ASSERT_NE(view, MAP_FAILED);
    views[i] = static_cast<uint8_t*>(view);
    regions[i] = &bed_.Register(view, kBytes, kAllAccess, MrMode::kMapped);
    regions[i]->segments[0].is_own_file = true;
  }
  const std::vector<uint8_t> before = Pattern(kBytes, 3);
  std::ranges::copy(before, views[0]);
  a_.PostSend({.opcode = kWrite,
               .list = {Testbed::Sge(*regions[0], 0, kPacketBytes)},
               .remote_addr = regions[1]->iova + kShift,
               .rkey = regions[1]->key});
  bed_.Settle();
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + kPacketBytes, views[0] + kShift));
  EXPECT_EQ(frames(), 0u);
  bed_.RemoveEndpoints();
  for (uint8_t* const view : views) munmap(view, kBytes);
}

TEST_F(WorkerDirectTest, BytesThatAreWrittenOverThemselvesArriveAsTheyWere) {
  constexpr uint32_t kBytes = 2000;
  for (const uint32_t shift : {8u, 0u}) {
    std::vector<uint8_t> memory = Pattern(kMessageBytes, 2);
    const std::vector<uint8_t> before = memory;
    const MemoryRegion& region =
        bed_.Register(memory.data(), memory.size(), kAllAccess, MrMode::kMapped);
    a_.PostSend({.opcode = kWrite,
                 .list = {Testbed::Sge(region, 8 - shift, kPacketBytes)},
                 .remote_addr = region.iova + shift,
                 .rkey = region.key});
    bed_.Settle();
    EXPECT_TRUE(std::equal(before.begin() + 8 - shift, before.begin() + 8 - shift + kPacketBytes,
                           memory.begin() + shift));
    EXPECT_TRUE(std::equal(before.begin() + kBytes, before.end(), memory.begin() + kBytes));
  }
  EXPECT_EQ(frames(), 0u);
}

// ---- packets that go as frames ----

TEST_F(WorkerDirectTest, WhileAccessesAreMeasuredPacketsGoAsFrames) {
  const MemoryRegion& from = Source();
  const MemoryRegion& to = Target();
  Write(from, to);
  bed_.Turn();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));  // The thread gives its CPU up.
  bed_.Turn(StallWatch::kLong);
  bed_.Settle();
  EXPECT_EQ(frames(), 0u);
  std::ranges::fill(target_, uint8_t{0});
  Write(from, to);
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(frames(), 3u);
  bed_.Turn(StallWatch::kLong * MemoryRest::kTimesAsLong);
  Write(from, to);
  bed_.Settle();
  EXPECT_EQ(frames(), 3u);
}

TEST_F(WorkerDirectTest, APacketForAnotherDeviceThanThePeersReachesNoQueuePair) {
  Endpoint& own = bed_.AddEndpoint(0);
  Endpoint& twin = bed_.AddEndpoint(0);
  Endpoint& far = bed_.AddEndpoint(1);
  bed_.Connect(own, far);
  Path path = own.qp->path();
  path.remote_qpn = twin.qp->qpn();
  bed_.worker->Run(
      [&] { bed_.worker->Modify(own.qp.get(), transport::QpState::kRts, bed_.attributes, &path); });
  WriteBy(own, Source(), Target());
  bed_.Turn();
  EXPECT_EQ(frames(), 3u);
  bed_.Turn();
  EXPECT_FALSE(Arrived(1));
  EXPECT_EQ(bed_.devices[1]->Sum(&DeviceCounters::rx_unknown_qpn), 3u);
}

// Each address of the path is another than the peer's, in turn.
TEST_F(WorkerDirectTest, APacketWithOtherAddressesThanThePeersIsDropped) {
  const MemoryRegion& from = Source();
  const MemoryRegion& to = Target();
  const Path path = a_.qp->path();
  std::array<Path, 3> paths{path, path, path};
  paths[0].source.bytes[15] ^= 1;
  paths[1].destination.bytes[15] ^= 1;
  paths[2].vlan_tci = 5;
  for (const Path& other : paths) {
    bed_.worker->Run([&] {
      bed_.worker->Modify(a_.qp.get(), transport::QpState::kReset, bed_.attributes, nullptr);
      bed_.worker->Modify(a_.qp.get(), transport::QpState::kRts, bed_.attributes, &other);
    });
    Write(from, to, 8);
    bed_.Turn();
    bed_.Turn();
    EXPECT_FALSE(Arrived(1));
  }
  EXPECT_EQ(bed_.devices[1]->Sum(&DeviceCounters::rx_bad_address), 3u);
}

TEST_F(WorkerDirectTest, APeerThatReceivesNothingDropsFrames) {
  bed_.Modify(b_, transport::QpState::kErr);
  Write(Source(), Target());
  bed_.Turn();
  bed_.Turn();
  EXPECT_FALSE(Arrived(1));
  EXPECT_EQ(bed_.devices[1]->Sum(&DeviceCounters::rx_bad_state), 3u);
}

TEST_F(WorkerDirectTest, AnUnreliableServiceGoesByFrames) {
  Endpoint& from = bed_.AddEndpoint(0, {.service = wire::Service::kUc});
  Endpoint& to = bed_.AddEndpoint(1, {.service = wire::Service::kUc});
  bed_.Connect(from, to);
  to.PostReceive(1, {Testbed::Sge(Target(), 0, kMessageBytes)});
  from.PostSend({.list = {Testbed::Sge(Source(), 0, kMessageBytes)}});
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(frames(), 3u);
}

TEST_F(WorkerDirectTest, AWireWithFaultsAtEitherEndGetsFrames) {
  for (drivers::FaultPort* const fault : wire_.faults) {
    std::ranges::fill(target_, uint8_t{0});
    fault->Set({.delay = Nanos(1000)});
    Write(Source(), Target());
    EXPECT_TRUE(bed_.RunUntil([this] { return Completed(); }));
    EXPECT_TRUE(Arrived());
    fault->Set({});
    EXPECT_TRUE(bed_.RunUntil([this] { return !bed_.Turn(); }));
  }
  EXPECT_EQ(frames(), 6u);
}

TEST_F(WorkerDirectTest, ACaptureSeesEveryPacket) {
  struct alignas(64) Line {
    uint8_t bytes[64];
  };
  std::vector<Line> lines((1 << 20) / sizeof(Line));
  uroce_capture_page page{};
  CaptureTap tap{&page, lines[0].bytes, 1 << 20, {}};
  bed_.worker->Run([&] { bed_.worker->AddTap(&tap); });
  Write(Source(), Target());
  bed_.Settle();
  bed_.worker->Run([&] { bed_.worker->RemoveTap(&tap); });
  EXPECT_EQ(frames(), 3u);
  EXPECT_GT(page.produced.value, uint64_t{2} * kMessageBytes);
}

TEST_F(WorkerDirectTest, AReceiversHistoryHasThePayload) {
  constexpr uint32_t kHeaderBytes = 14 + 20 + 8 + 12 + 16;  // Of a FIRST by IPv4.
  Record(b_, true);
  Write(Source(), Target());
  bed_.Settle();
  EXPECT_EQ(frames(), 3u);
  const std::vector<HistoryPacket> packets = b_.qp->history()->InOrder();
  ASSERT_FALSE(packets.empty());
  EXPECT_TRUE(std::equal(packets[0].bytes.begin() + kHeaderBytes, packets[0].bytes.end(),
                         pattern_.begin()));
}

// ---- the order of frames and other packets ----

// The port takes no frame, so that those of the first message are still on their way when the queue
// pair could send the second one without frames.
TEST_F(WorkerDirectTest, NoPacketOvertakesAFrame) {
  const MemoryRegion& from = Source();
  const MemoryRegion& to = Target();
  Record(a_, true);
  wire_.spies[0]->takes = 0;
  Write(from, to);
  bed_.Turn();
  Record(a_, false);
  Write(from, to);
  bed_.Turn();
  EXPECT_FALSE(Arrived(1)) << "the first message has not arrived";
  wire_.spies[0]->takes = UINT16_MAX;
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_TRUE(Completed());
  EXPECT_TRUE(Completed());
  EXPECT_EQ(frames(), 6u);
  EXPECT_EQ(b_.qp->counters().out_of_sequence, 0u);
  Write(from, to);
  bed_.Settle();
  EXPECT_TRUE(Completed());
  EXPECT_EQ(frames(), 6u) << "nothing is on its way any more";
}

// A frame of the queue pair's former life must not come into its next one.
TEST_F(WorkerDirectTest, NoPacketOvertakesAFrameOfAFormerConnection) {
  const MemoryRegion& from = Source();
  const MemoryRegion& to = Target();
  Record(a_, true);
  wire_.spies[0]->takes = 0;
  Write(from, to);
  bed_.Turn();
  Record(a_, false);
  const Path path = a_.qp->path();
  bed_.worker->Run([&] {
    bed_.worker->Modify(a_.qp.get(), transport::QpState::kReset, bed_.attributes, nullptr);
    bed_.worker->Modify(a_.qp.get(), transport::QpState::kRts, bed_.attributes, &path);
  });
  const std::vector<uint8_t> other = Pattern(kMessageBytes, 7);
  std::ranges::copy(other, source_.begin());
  Write(from, to);
  bed_.Turn();
  EXPECT_EQ(target_, std::vector<uint8_t>(kMessageBytes)) << "it waits behind the frames";
}

// A frame is lost, and the next message goes without frames: it is kept until the first one comes.
TEST_F(WorkerDirectTest, APacketBehindAHoleIsKept) {
  bed_.attributes.selective_repeat = true;
  Endpoint& from_end = bed_.AddEndpoint(0);
  Endpoint& to_end = bed_.AddEndpoint(1);
  bed_.Connect(from_end, to_end);
  const MemoryRegion& from = Source();
  const MemoryRegion& to = Target();
  wire_.faults[0]->Set({.drop = 1});
  WriteBy(from_end, from, to, 8);
  bed_.Turn();
  wire_.faults[0]->Set({});
  WriteBy(from_end, from, to);
  bed_.Turn();
  EXPECT_EQ(to_end.qp->counters().kept_out_of_order, 3u);
  Spoil();
  std::copy_n(pattern_.begin(), 8, source_.begin());
  EXPECT_TRUE(bed_.RunUntil([&] {
    uroce_cqe cqe;
    return from_end.PollSend(cqe) && from_end.PollSend(cqe);
  }));
  EXPECT_TRUE(Arrived());
}

// ---- packets that wait for a copy ----

TEST_F(WorkerDirectTest, APacketThatWaitsForACopyHasItsPayload) {
  bed_.StartCopyHelper();
  Write(Source(), Target(MrMode::kCopied));
  bed_.Turn();
  EXPECT_EQ(frames(), 0u);
  ExpectJobOfWholeFrames();
  Spoil();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
}

TEST_F(WorkerDirectTest, AWorkerCopiesItsBytesInTheTurnThatSendsThem) {
  bed_.StartCopyHelper(*bed_.session, /*by_workers=*/true);
  Write(Source(), Target(MrMode::kCopied));
  bed_.Turn();
  EXPECT_EQ(frames(), 0u);
  EXPECT_TRUE(Arrived());
  Spoil();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_TRUE(Completed());
}

TEST_F(WorkerDirectTest, PacketsBehindACopyOfTheHelperHaveTheirPayload) {
  bed_.StartCopyHelper(*bed_.session, /*by_workers=*/true);
  MemoryRegion& late = Target(MrMode::kCopied);
  late.segments[0].may_wait = true;
  Write(Source(), late);
  bed_.Turn();
  EXPECT_EQ(frames(), 0u);
  ExpectJobOfWholeFrames();
  Spoil();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
}

// The second message waits for the helper, so the third waits behind it.
TEST_F(WorkerDirectTest, PacketsBehindACopyThatTheWorkerDoesNotMakeHaveTheirPayload) {
  bed_.StartCopyHelper(*bed_.session, /*by_workers=*/true);
  const MemoryRegion& from = Source();
  std::vector<uint8_t> late_bytes(kMessageBytes);
  std::vector<uint8_t> last_bytes(kMessageBytes);
  MemoryRegion& late = bed_.Register(late_bytes.data(), kMessageBytes, kAllAccess, MrMode::kCopied);
  late.segments[0].may_wait = true;
  const MemoryRegion& last =
      bed_.Register(last_bytes.data(), kMessageBytes, kAllAccess, MrMode::kMapped);
  Write(from, Target(MrMode::kCopied));
  Write(from, late);
  Write(from, last);
  bed_.Turn();
  EXPECT_EQ(frames(), 0u);
  ExpectJobOfWholeFrames();
  Spoil();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(late_bytes, pattern_);
  EXPECT_EQ(last_bytes, pattern_);
}

// The first packet is copied, and the next ones are executed behind it, in the same turn.
TEST_F(WorkerDirectTest, PacketsBehindACopyGoOnFromTheirOwnMemory) {
  bed_.StartCopyHelper(*bed_.session, /*by_workers=*/true);
  const MemoryRegion& from = Source();
  std::vector<uint8_t> mapped_bytes(kMessageBytes);
  const MemoryRegion& mapped =
      bed_.Register(mapped_bytes.data(), kMessageBytes, kAllAccess, MrMode::kMapped);
  Write(from, Target(MrMode::kCopied), kPacketBytes);
  Write(from, mapped);
  bed_.Turn();
  EXPECT_EQ(frames(), 0u);
  EXPECT_TRUE(Arrived(kPacketBytes));
  EXPECT_EQ(mapped_bytes, pattern_);
  Spoil();
  bed_.Settle();
  EXPECT_EQ(mapped_bytes, pattern_);
}

TEST_F(WorkerDirectTest, CopiedPayloadGoesAsFrames) {
  bed_.StartCopyHelper(*bed_.session, /*by_workers=*/true);
  Write(Source(MrMode::kCopied), Target());
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_TRUE(Completed());
  EXPECT_EQ(frames(), 3u);
}

// The copy of the first packet has read the payload of the next ones, too. Where the receiver's
// memory is `copied`, its copy at the end of the turn finds that payload as it was.
TEST_F(WorkerDirectTest, PayloadThatWasPrefetchedNeedsNoFrame) {
  constexpr uint32_t kLongBytes = 100 * kPacketBytes;
  bed_.StartCopyHelper(*bed_.session, /*by_workers=*/true);
  const std::vector<uint8_t> pattern = Pattern(kLongBytes, 2);
  std::vector<uint8_t> source = pattern;
  const MemoryRegion& from = bed_.Register(source.data(), kLongBytes, kAllAccess, MrMode::kCopied);
  for (const MrMode mode : {MrMode::kMapped, MrMode::kCopied}) {
    std::vector<uint8_t> target(kLongBytes);
    const MemoryRegion& to = bed_.Register(target.data(), kLongBytes, kAllAccess, mode);
    const uint32_t before = frames();
    const uint32_t in_use = rte_mempool_in_use_count(TestPool());
    Write(from, to, kLongBytes);
    bed_.Settle();
    EXPECT_EQ(target, pattern);
    EXPECT_TRUE(Completed());
    EXPECT_LT(frames() - before, 70u);
    EXPECT_LE(rte_mempool_in_use_count(TestPool()), in_use + kBurst) << "of empty ones";
  }
}

TEST(WorkersDirectTest, PacketsForAnotherWorkerGoAsFrames) {
  Wire wire(2);
  Testbed bed({wire.spies[0].get(), wire.spies[1].get()}, 2);
  for (const auto& device : bed.devices) device->leaves_icrc_out = true;
  Endpoint& a = bed.AddEndpoint(0);
  Endpoint& b = bed.AddEndpoint(1, {}, 1);
  bed.Connect(a, b);
  std::vector<uint8_t> source = Pattern(kMessageBytes, 1);
  std::vector<uint8_t> target(kMessageBytes);
  const MemoryRegion& from =
      bed.Register(source.data(), source.size(), kAllAccess, MrMode::kMapped);
  const MemoryRegion& to = bed.Register(target.data(), target.size(), kAllAccess, MrMode::kMapped);
  a.PostSend({.opcode = kWrite,
              .list = {Testbed::Sge(from, 0, kMessageBytes)},
              .remote_addr = to.iova,
              .rkey = to.key});
  bed.Settle();
  EXPECT_EQ(source, target);
  EXPECT_NE(wire.spies[0]->taken_frames, 0u);
  bed.RemoveEndpoints();
}

}  // namespace
}  // namespace uroce::datapath
