// SPDX-License-Identifier: Apache-2.0
// Limits of a device and of users, as workers keep them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "pipeline/congestion/settings.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/wire/packet.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kPath = 1024;
constexpr size_t kWrittenBytes = 1 << 20;
constexpr uint64_t kRate = 1'000'000'000;
constexpr Nanos kTurn{5'000};

/// Senders on the first device, each with a peer on the second.
class Senders {
 public:
  explicit Senders(uint64_t rate_bps = 0, uint32_t worker_count = 1)
      : bed_({nullptr, nullptr}, worker_count, kNever, rate_bps) {
    bed_.attributes.path_mtu_bytes = kPath;
    bed_.attributes.timeout = 0;
    bed_.ports[0].filter = [this](rte_mbuf* frame) {
      bytes_on_wire_ += frame->data_len + congestion::kFrameOverheadBytes;
      return true;
    };
  }
  /// A sender of `session` whose messages have `length` bytes.
  void Add(Session* session, uint32_t length, uint32_t worker = 0) {
    Endpoint& from = bed_.AddEndpoint(0, {.session = session}, worker);
    Endpoint& to = bed_.AddEndpoint(1, {.session = session}, worker);
    bed_.Connect(from, to);
    senders_.push_back({&from, length, 0});
  }
  /// Keeps all senders busy for `time`, and returns what they sent of messages meanwhile.
  std::vector<uint64_t> Run(Nanos time) {
    bytes_on_wire_ = 0;
    for (Sender& sender : senders_) sender.sent_bytes = 0;
    for (const Nanos end = bed_.now + time; bed_.now < end;) {
      for (Sender& sender : senders_) Refill(sender);
      bed_.Turn(kTurn);
    }
    std::vector<uint64_t> sent;
    for (const Sender& sender : senders_) sent.push_back(sender.sent_bytes);
    return sent;
  }
  uint64_t bytes_on_wire() const { return bytes_on_wire_; }
  Testbed& bed() { return bed_; }
  Endpoint& at(size_t index) { return *senders_[index].endpoint; }

 private:
  struct Sender {
    Endpoint* endpoint;
    uint32_t length;
    uint64_t sent_bytes;
    uint32_t under_way = 0;
  };
  void Refill(Sender& sender) {
    uroce_cqe cqe;
    while (sender.endpoint->PollSend(cqe)) {
      ASSERT_EQ(cqe.status, 0);
      sender.sent_bytes += sender.length;
      --sender.under_way;
    }
    for (; sender.under_way < 32; ++sender.under_way) {
      sender.endpoint->PostSend({.opcode = kWrite,
                                 .list = {Testbed::Sge(from_, 0, sender.length)},
                                 .remote_addr = to_.iova,
                                 .rkey = to_.key});
    }
    sender.endpoint->RingBell();
  }

  uint64_t bytes_on_wire_ = 0;
  Testbed bed_;
  std::vector<uint8_t> source_ = Pattern(kWrittenBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kWrittenBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kWrittenBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& to_ = bed_.Register(target_.data(), kWrittenBytes, kAllAccess, MrMode::kMapped);
  std::vector<Sender> senders_;
};

void ExpectRate(uint64_t bytes, Nanos time, uint64_t bps) {
  const double wanted = static_cast<double>(bps) / 8e9 * static_cast<double>(time.count());
  EXPECT_NEAR(static_cast<double>(bytes) / wanted, 1, 0.02);
}

// [cc.limit.nic] A device sends its rate, in bytes on the wire, over all programs and workers.
TEST(WorkerRateTest, ADeviceKeepsItsRate) {
  for (const uint32_t workers : {1u, 2u}) {
    Senders senders(kRate, workers);
    Session& other = senders.bed().AddSession();
    senders.Add(nullptr, 16 * kPath);
    senders.Add(&other, 300, workers - 1);
    senders.Run(Nanos(2'000'000));
    const Nanos time(20'000'000);
    senders.Run(time);
    ExpectRate(senders.bytes_on_wire(), time, kRate);
  }
}

// [cc.limit.fair] Programs, and the queue pairs of one, share a limited device by bytes.
TEST(WorkerRateTest, ProgramsShareALimitedDeviceByBytes) {
  Senders senders(kRate);
  Session& other = senders.bed().AddSession();
  senders.Add(nullptr, 8 * kPath);
  senders.Add(nullptr, kPath);
  senders.Add(&other, 4 * kPath);
  senders.Run(Nanos(5'000'000));
  const std::vector<uint64_t> sent = senders.Run(Nanos(50'000'000));
  const auto first = static_cast<double>(sent[0] + sent[1]);
  EXPECT_NEAR(first / static_cast<double>(sent[2]), 1, 0.1);
  EXPECT_NEAR(static_cast<double>(sent[0]) / static_cast<double>(sent[1]), 1, 0.15);
}

// [cc.limit.user] The programs of a user keep its rate together, also by several workers; other
// users have the rest.
TEST(WorkerRateTest, AUserKeepsItsRate) {
  for (const uint32_t workers : {1u, 2u}) {
    SharedRate rate(kRate);
    Senders senders(0, workers);
    senders.Add(nullptr, 4 * kPath);
    std::array<Session*, 2> limited = {&senders.bed().AddSession(&rate),
                                       &senders.bed().AddSession(&rate)};
    senders.Add(limited[0], 4 * kPath);
    senders.Add(limited[1], 200, workers - 1);
    senders.Run(Nanos(2'000'000));
    const Nanos time(20'000'000);
    const std::vector<uint64_t> sent = senders.Run(time);
    // Bytes of messages; a packet of 200 bytes takes 98 more on the wire.
    const auto first = static_cast<uint64_t>(std::llround(static_cast<double>(sent[1]) * 1.084));
    const auto second = static_cast<uint64_t>(std::llround(static_cast<double>(sent[2]) * 1.49));
    const double wanted = kRate / 8e9 * 20'000'000.0;
    EXPECT_NEAR(static_cast<double>(first + second) / wanted, 1, 0.03);
    EXPECT_NEAR(static_cast<double>(first) / static_cast<double>(second), 1, 0.1);
    EXPECT_GT(sent[0], 2 * (sent[1] + sent[2])) << "who has no limit";
  }
}

// [cc.limit.free] Acknowledgements do not wait for a limit, and count.
TEST(WorkerRateTest, AcknowledgementsDoNotWait) {
  Senders senders(1'000'000);
  senders.Add(nullptr, 64 * kPath);
  senders.Run(Nanos(1'000'000));
  Endpoint& busy = senders.at(0);
  ASSERT_NE(busy.qp, nullptr);
  // The other way: the limited device acknowledges at once.
  Testbed& bed = senders.bed();
  Endpoint& to = bed.AddEndpoint(0);
  Endpoint& from = bed.AddEndpoint(1);
  bed.Connect(from, to);
  std::vector<uint8_t> bytes = Pattern(kPath, 2), target(kPath);
  const MemoryRegion& source = bed.Register(bytes.data(), kPath, kAllAccess, MrMode::kMapped);
  const MemoryRegion& place = bed.Register(target.data(), kPath, kAllAccess, MrMode::kMapped);
  from.PostSend({.opcode = kWrite,
                 .list = {Testbed::Sge(source, 0, kPath)},
                 .remote_addr = place.iova,
                 .rkey = place.key});
  from.RingBell();
  for (int i = 0; i < 4; ++i) bed.Turn();
  uroce_cqe cqe;
  EXPECT_TRUE(from.PollSend(cqe));
  bed.RemoveEndpoints();
}

// [cc.limit.end] A program that ends while it waits for its share leaves nothing behind.
TEST(WorkerRateTest, AProgramMayEndWhileItWaits) {
  SharedRate rate(1'000'000);
  Senders senders;
  Session& limited = senders.bed().AddSession(&rate);
  senders.Add(&limited, 64 * kPath);
  senders.Run(Nanos(1'000'000));
  senders.bed().RemoveEndpoints();
  senders.bed().workers->RunOnEach([&](Worker& each) { each.RemoveSession(&limited); });
  for (int i = 0; i < 10; ++i) senders.bed().Turn(Nanos(100'000'000));
}

}  // namespace
}  // namespace uroce::datapath
