// SPDX-License-Identifier: Apache-2.0
// READs over a port whose receive buffer drops what it does not hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/transport/send_queue.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kReadsPath = 1024;
constexpr uint64_t kRoom = 63 * 1024;
constexpr size_t kRegionBytes = 1 << 19;
constexpr size_t kBth = 14 + 20 + 8;
constexpr size_t kRethLength = kBth + 12 + 12;
constexpr uint8_t kReadRequest = 12;
constexpr uint8_t kReadResponseMiddle = 14;

uint64_t Cost(uint32_t length) {
  return transport::ReceiveBufferBytes(length, std::max(1u, (length + kReadsPath - 1) / kReadsPath),
                                       false);
}

/// Readers on the first device, whose port has kRoom for READs; their data is on the second.
class Readers {
 public:
  Readers() {
    for (size_t i = 0; i < ports_.size(); ++i) ports_[i].peer = &ports_[1 - i];
    bed_.attributes.path_mtu_bytes = kReadsPath;
    bed_.attributes.timeout = 0;
    bed_.attributes.max_rd_atomic = bed_.attributes.max_dest_rd_atomic = 16;
    ports_[0].filter = [this](rte_mbuf* frame) {
      const auto* const bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
      if (bytes[kBth] != kReadRequest) return true;
      uint32_t length = 0;
      std::memcpy(&length, bytes + kRethLength, sizeof length);
      awaited_ += Cost(__builtin_bswap32(length));
      most_awaited_ = std::max(most_awaited_, awaited_);
      ++requests;
      return true;
    };
    ports_[1].filter = [this](rte_mbuf* frame) {
      const auto opcode = rte_pktmbuf_mtod(frame, const uint8_t*)[kBth];
      const size_t aeth = opcode == kReadResponseMiddle ? 0 : 4;
      const size_t headers = kBth + 12 + aeth + 4;
      if (drops || frame->data_len < headers) return !drops;
      const auto length = static_cast<uint32_t>(frame->data_len - headers);
      awaited_ -= std::min(awaited_, transport::ReceiveBufferBytes(length, 1, false));
      return true;
    };
  }

  Endpoint& Add(Session* session = nullptr) {
    Endpoint& from = bed_.AddEndpoint(0, {.session = session});
    bed_.Connect(from, bed_.AddEndpoint(1, {.session = session}));
    return from;
  }
  void Post(Endpoint& reader, uint32_t length) {
    reader.PostSend({.opcode = kRead,
                     .list = {Testbed::Sge(to_, 0, length)},
                     .remote_addr = from_.iova,
                     .rkey = from_.key});
  }
  /// How many READs of `reader` have ended since the last call.
  uint32_t Ended(Endpoint& reader) {
    uroce_cqe cqe;
    uint32_t ended = 0;
    for (; reader.PollSend(cqe); ++ended) EXPECT_EQ(cqe.status, 0);
    return ended;
  }
  void Turns(int count, Nanos passed = Nanos(1000)) {
    for (; count != 0; --count) bed_.Turn(passed);
  }
  uint64_t most_awaited() const { return most_awaited_; }
  uint64_t awaited() const { return awaited_; }
  Testbed& bed() { return bed_; }

  bool drops = false;  ///< All responses.
  uint32_t requests = 0;

 private:
  std::array<TestPort, 2> ports_;
  uint64_t awaited_ = 0;
  uint64_t most_awaited_ = 0;
  Testbed bed_{{&WithBuffer(ports_[0]), &ports_[1]}};
  std::vector<uint8_t> source_ = Pattern(kRegionBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kRegionBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kRegionBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& to_ = bed_.Register(target_.data(), kRegionBytes, kAllAccess, MrMode::kMapped);

  // The workers ask a port for its buffer when they get it.
  static TestPort& WithBuffer(TestPort& port) {
    port.buffer_bytes = kRoom / 3 * 4 + 4;
    return port;
  }
};

TEST(WorkerReadsTest, ReadsAskForWhatTheBufferHolds) {
  Readers readers;
  std::vector<Endpoint*> all;
  for (int i = 0; i < 8; ++i) all.push_back(&readers.Add());
  for (Endpoint* reader : all) {
    for (uint32_t n = 0; n < 16; ++n) readers.Post(*reader, n % 2 == 0 ? 10 * kReadsPath : 100);
  }
  uint32_t ended = 0;
  EXPECT_TRUE(readers.bed().RunUntil([&] {
    for (Endpoint* reader : all) ended += readers.Ended(*reader);
    return ended == 8 * 16;
  }));
  EXPECT_LE(readers.most_awaited(), kRoom);
  EXPECT_GE(readers.most_awaited(), kRoom - Cost(10 * kReadsPath));
}

TEST(WorkerReadsTest, AReadLargerThanTheBufferIsReadAlone) {
  Readers readers;
  Endpoint& large = readers.Add();
  Endpoint& small = readers.Add();
  readers.Post(large, 256 * kReadsPath);
  for (int i = 0; i < 10; ++i) readers.Post(small, kReadsPath);
  readers.Post(large, 256 * kReadsPath);
  uint32_t ended = 0;
  EXPECT_TRUE(readers.bed().RunUntil([&] {
    ended += readers.Ended(large) + readers.Ended(small);
    return ended == 12;
  }));
  EXPECT_LE(readers.most_awaited(), Cost(256 * kReadsPath));
}

TEST(WorkerReadsTest, ManySmallReadsLeaveInOneTurn) {
  Readers readers;
  Endpoint& reader = readers.Add();
  readers.drops = true;
  readers.Turns(1);
  for (int i = 0; i < 10; ++i) readers.Post(reader, 64);
  readers.Turns(2);
  EXPECT_EQ(readers.requests, 10u);
}

// A peer that answers no more holds others up for a while only.
TEST(WorkerReadsTest, ResponsesThatDoNotComeHoldOthersUpForAWhile) {
  Readers readers;
  Endpoint& lost = readers.Add();
  Endpoint& other = readers.Add();
  readers.drops = true;
  for (int i = 0; i < 2; ++i) readers.Post(lost, 10 * kReadsPath);
  readers.Turns(10);
  readers.drops = false;
  readers.Post(other, 10 * kReadsPath);
  readers.Turns(10);
  EXPECT_EQ(readers.Ended(other), 0u);
  readers.Turns(50, Nanos(1'000'000));
  EXPECT_EQ(readers.Ended(other), 1u);
  EXPECT_EQ(readers.Ended(lost), 0u);
}

TEST(WorkerReadsTest, AQueuePairThatStopsGivesBackWhatItAskedFor) {
  for (const transport::QpState state : {transport::QpState::kErr, transport::QpState::kReset}) {
    Readers readers;
    Endpoint& lost = readers.Add();
    Endpoint& other = readers.Add();
    readers.drops = true;
    for (int i = 0; i < 5; ++i) readers.Post(lost, 10 * kReadsPath);
    readers.Turns(10);
    readers.drops = false;
    readers.Post(other, 10 * kReadsPath);
    readers.Turns(10);
    EXPECT_EQ(readers.Ended(other), 0u);
    readers.bed().Modify(lost, state);
    readers.Turns(20);
    EXPECT_EQ(readers.Ended(other), 1u);
  }
}

TEST(WorkerReadsTest, AQueuePairThatWaitsMayEnd) {
  Readers readers;
  Endpoint& lost = readers.Add();
  readers.drops = true;
  for (int i = 0; i < 5; ++i) readers.Post(lost, 10 * kReadsPath);
  readers.Turns(10);
  readers.bed().RemoveEndpoints();
  readers.drops = false;
  Endpoint& other = readers.Add();
  readers.Post(other, 10 * kReadsPath);
  readers.Turns(20);
  EXPECT_EQ(readers.Ended(other), 1u);
}

TEST(WorkerReadsTest, ProgramsShareTheBuffer) {
  Readers readers;
  Session& other = readers.bed().AddSession();
  std::vector<Endpoint*> all;
  for (int i = 0; i < 4; ++i) all.push_back(&readers.Add());
  all.push_back(&readers.Add(&other));
  std::vector<uint32_t> under_way(all.size());
  std::vector<uint32_t> ended(all.size());
  for (int turn = 0; turn < 4000; ++turn) {
    for (size_t i = 0; i < all.size(); ++i) {
      const uint32_t done = readers.Ended(*all[i]);
      ended[i] += done;
      under_way[i] -= done;
      for (; under_way[i] < 16; ++under_way[i]) readers.Post(*all[i], 8 * kReadsPath);
    }
    readers.Turns(1);
  }
  const double first = ended[0] + ended[1] + ended[2] + ended[3];
  EXPECT_NEAR(first / ended[4], 1, 0.15);
  EXPECT_NEAR(static_cast<double>(ended[0]) / ended[3], 1, 0.15);
}

TEST(WorkerReadsTest, WithoutABoundReadsAskForAll) {
  Testbed bed;
  const Endpoint* const reader = bed.AddPair().first;
  bed.Settle();
  EXPECT_EQ(reader->qp->core().reliable().read_allowance(), transport::ReadAllowance::kUnlimited);
}

}  // namespace
}  // namespace uroce::datapath
