// SPDX-License-Identifier: Apache-2.0
// Payload that goes from program to program without a copy in a frame, and all who keep a frame or
// look at its bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "drivers/cable/cable_port.h"
#include "drivers/fault/fault_port.h"
#include "pipeline/datapath/capture/packet_records.h"
#include "pipeline/datapath/worker/stall_watch.h"
#include "pipeline/port/frames.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kPacketBytes = 1024;
constexpr uint32_t kMessageBytes = 3 * kPacketBytes;

/// A port that counts the frames that it takes whose payload is not in them.
class Spy final : public drivers::Port {
 public:
  explicit Spy(std::unique_ptr<drivers::Port> port) : port_(std::move(port)) {}

  uint16_t queues() const override { return port_->queues(); }
  uint16_t ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override {
    return port_->ReceiveBurst(queue, frames, count, now);
  }
  uint16_t TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override {
    const uint16_t taken = port_->TransmitBurst(queue, frames, std::min(count, takes), now);
    for (uint16_t i = 0; i < taken; ++i) referred += references_.IsSet(*frames[i]) ? 1 : 0;
    return taken;
  }
  uint16_t TransmitRoom(uint16_t queue) const override { return port_->TransmitRoom(queue); }
  const void* outlet(uint16_t queue) const override { return port_->outlet(queue); }
  const void* inlet(uint16_t queue) const override { return port_->inlet(queue); }
  drivers::PortInfo Info() const override { return port_->Info(); }

  uint32_t referred = 0;
  uint16_t takes = UINT16_MAX;  ///< Of a burst.

 private:
  const std::unique_ptr<drivers::Port> port_;
  const drivers::PayloadReference references_;
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

class WorkerReferenceTest : public testing::Test {
 protected:
  WorkerReferenceTest() {
    for (const auto& device : bed_.devices) device->leaves_icrc_out = true;
    bed_.attributes.path_mtu_bytes = kPacketBytes;
    bed_.Connect(a_, b_);
  }
  ~WorkerReferenceTest() override { bed_.RemoveEndpoints(); }

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
  /// The program writes to its buffer before its work has completed, which none should.
  void Spoil() { std::ranges::fill(source_, uint8_t{0xee}); }
  bool Completed() {
    uroce_cqe cqe;
    return a_.PollSend(cqe) && cqe.status == 0;
  }
  uint32_t referred() const { return wire_.spies[0]->referred; }

  Wire wire_;
  Testbed bed_{{wire_.spies[0].get(), wire_.spies[1].get()}};
  Endpoint& a_ = bed_.AddEndpoint(0);
  Endpoint& b_ = bed_.AddEndpoint(1);
  const std::vector<uint8_t> pattern_ = Pattern(kMessageBytes, 1);
  std::vector<uint8_t> source_ = pattern_;
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kMessageBytes);
};

TEST_F(WorkerReferenceTest, ItsBytesAreReadInTheTurnThatSendsThem) {
  Write(Source(), Target());
  bed_.Turn();
  Spoil();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(referred(), 3u);
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_TRUE(Completed());
}

TEST_F(WorkerReferenceTest, SendsGoTheSameWay) {
  const MemoryRegion& to = Target();
  b_.PostReceive(1, {Testbed::Sge(to, 0, kMessageBytes)});
  a_.PostSend({.list = {Testbed::Sge(Source(), 0, kMessageBytes)}});
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(referred(), 3u);
}

TEST_F(WorkerReferenceTest, ADeviceReachesItself) {
  Endpoint& other = bed_.AddEndpoint(0);
  Endpoint& own = bed_.AddEndpoint(0);
  bed_.Connect(own, other);
  WriteBy(own, Source(), Target());
  bed_.Turn();
  Spoil();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
}

// ---- those that are copied ----

TEST_F(WorkerReferenceTest, ShortPayloadIsCopied) {
  Write(Source(), Target(), kPacketBytes - 1);
  bed_.Settle();
  EXPECT_TRUE(Arrived(kPacketBytes - 1));
  EXPECT_EQ(referred(), 0u);
}

TEST_F(WorkerReferenceTest, PiecesAreCopied) {
  const MemoryRegion& from = Source();
  const MemoryRegion& to = Target();
  a_.PostSend({.opcode = kWrite,
               .list = {Testbed::Sge(from, 0, 1500), Testbed::Sge(from, 1500, 1572)},
               .remote_addr = to.iova,
               .rkey = to.key});
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(referred(), 2u) << "the second packet has bytes of both";
}

TEST_F(WorkerReferenceTest, FilesOfAProgramAreCopied) {
  MemoryRegion& from = Source();
  from.segments[0].is_own_file = true;
  Write(from, Target());
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(referred(), 0u);
}

TEST_F(WorkerReferenceTest, WhileAccessesAreMeasuredBytesAreCopied) {
  const MemoryRegion& from = Source();
  const MemoryRegion& to = Target();
  Write(from, to);
  bed_.Turn();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));  // The thread gives its CPU up.
  bed_.Turn(StallWatch::kLong);
  bed_.Settle();
  EXPECT_EQ(referred(), 3u);
  std::ranges::fill(target_, uint8_t{0});
  Write(from, to);
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(referred(), 3u);
  bed_.Turn(StallWatch::kLong * MemoryRest::kTimesAsLong);
  Write(from, to);
  bed_.Settle();
  EXPECT_EQ(referred(), 6u);
}

TEST_F(WorkerReferenceTest, AFrameThatGoesElsewhereIsWhole) {
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
  EXPECT_EQ(referred(), 0u);
}

TEST_F(WorkerReferenceTest, AResponseHasTheBytesOfItsMoment) {
  const MemoryRegion& from = Source();
  b_.PostSend({.opcode = kRead,
               .list = {Testbed::Sge(Target(), 0, kMessageBytes)},
               .remote_addr = from.iova,
               .rkey = from.key});
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(referred(), 0u);
}

TEST_F(WorkerReferenceTest, AWorkThatCompletesBeforeItArrivesIsCopied) {
  Endpoint& from = bed_.AddEndpoint(0, {.service = wire::Service::kUc});
  Endpoint& to = bed_.AddEndpoint(1, {.service = wire::Service::kUc});
  bed_.Connect(from, to);
  to.PostReceive(1, {Testbed::Sge(Target(), 0, kMessageBytes)});
  from.PostSend({.list = {Testbed::Sge(Source(), 0, kMessageBytes)}});
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(referred(), 0u);
}

TEST_F(WorkerReferenceTest, AWireWithFaultsAtEitherEndGetsWholeFrames) {
  for (drivers::FaultPort* const fault : wire_.faults) {
    std::ranges::fill(target_, uint8_t{0});
    fault->Set({.delay = Nanos(1000)});
    Write(Source(), Target());
    EXPECT_TRUE(bed_.RunUntil([this] { return Completed(); }));
    EXPECT_TRUE(Arrived());
    fault->Set({});
    EXPECT_TRUE(bed_.RunUntil([this] { return !bed_.Turn(); }));
  }
  EXPECT_EQ(referred(), 0u);
}

TEST_F(WorkerReferenceTest, CapturedFramesAreWhole) {
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
  EXPECT_EQ(referred(), 0u);
  EXPECT_GT(page.produced.value, uint64_t{2} * kMessageBytes);
}

// ---- those that keep a frame, or look at it ----

TEST_F(WorkerReferenceTest, AFrameThatWaitsForACopyHasItsPayload) {
  bed_.StartCopyHelper();
  Write(Source(), Target(MrMode::kCopied));
  bed_.Turn();
  EXPECT_EQ(referred(), 3u);
  Spoil();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
}

TEST_F(WorkerReferenceTest, AWorkerCopiesItsBytesInTheTurnThatSendsThem) {
  bed_.StartCopyHelper(*bed_.session, /*by_workers=*/true);
  Write(Source(), Target(MrMode::kCopied));
  bed_.Turn();
  EXPECT_EQ(referred(), 3u);
  EXPECT_TRUE(Arrived());
  Spoil();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_TRUE(Completed());
}

TEST_F(WorkerReferenceTest, FramesBehindACopyOfTheHelperHaveTheirPayload) {
  bed_.StartCopyHelper(*bed_.session, /*by_workers=*/true);
  MemoryRegion& late = Target(MrMode::kCopied);
  late.segments[0].may_wait = true;
  Write(Source(), late);
  bed_.Turn();
  EXPECT_EQ(referred(), 3u);
  Spoil();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
}

// The second message waits for the helper, so the third waits behind it.
TEST_F(WorkerReferenceTest, FramesBehindACopyThatTheWorkerDoesNotMakeHaveTheirPayload) {
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
  EXPECT_EQ(referred(), 9u);
  Spoil();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(late_bytes, pattern_);
  EXPECT_EQ(last_bytes, pattern_);
}

// The first packet is copied, and the next ones are executed behind it, in the same turn.
TEST_F(WorkerReferenceTest, FramesBehindACopyGoOnFromTheirOwnMemory) {
  bed_.StartCopyHelper(*bed_.session, /*by_workers=*/true);
  const MemoryRegion& from = Source();
  std::vector<uint8_t> mapped_bytes(kMessageBytes);
  const MemoryRegion& mapped =
      bed_.Register(mapped_bytes.data(), kMessageBytes, kAllAccess, MrMode::kMapped);
  Write(from, Target(MrMode::kCopied), kPacketBytes);
  Write(from, mapped);
  bed_.Turn();
  EXPECT_EQ(referred(), 4u);
  EXPECT_TRUE(Arrived(kPacketBytes));
  EXPECT_EQ(mapped_bytes, pattern_);
  Spoil();
  bed_.Settle();
  EXPECT_EQ(mapped_bytes, pattern_);
}

TEST_F(WorkerReferenceTest, AFrameThatThePortDoesNotTakeHasItsPayload) {
  wire_.spies[0]->takes = 1;
  Write(Source(), Target());
  bed_.Turn();
  EXPECT_EQ(referred(), 1u);
  Spoil();
  wire_.spies[0]->takes = UINT16_MAX;
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(referred(), 1u);
}

TEST_F(WorkerReferenceTest, AReceiversHistoryHasThePayload) {
  constexpr uint32_t kHeaderBytes = 14 + 20 + 8 + 12 + 16;  // Of a FIRST by IPv4.
  b_.qp->set_history(std::make_unique<PacketHistory>(64));
  Write(Source(), Target());
  bed_.Settle();
  EXPECT_EQ(referred(), 3u);
  const std::vector<HistoryPacket> packets = b_.qp->history()->InOrder();
  ASSERT_FALSE(packets.empty());
  EXPECT_TRUE(std::equal(packets[0].bytes.begin() + kHeaderBytes, packets[0].bytes.end(),
                         pattern_.begin()));
}

TEST_F(WorkerReferenceTest, BytesThatAreWrittenOverThemselvesArriveAsTheyWere) {
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
  EXPECT_EQ(referred(), 2u);
}

TEST(WorkersReferenceTest, BytesForAnotherWorkerAreCopied) {
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
  EXPECT_EQ(wire.spies[0]->referred, 0u);
  bed.RemoveEndpoints();
}

}  // namespace
}  // namespace uroce::datapath
