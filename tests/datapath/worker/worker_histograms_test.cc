// SPDX-License-Identifier: Apache-2.0
// What a worker counts by size: messages, and how long things take.
#include <gtest/gtest.h>

#include <numeric>
#include <tuple>
#include <vector>

#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

uint64_t CountOf(const HistogramSums& sums) {
  return std::accumulate(sums.counts.begin(), sums.counts.end(), uint64_t{0});
}

class WorkerHistogramsTest : public testing::Test {
 protected:
  static constexpr uint32_t kBytes = 5000;

  /// `selective`: both ends have agreed to selective repeat.
  void Connect(bool selective) {
    bed_.attributes.selective_repeat = selective;
    std::tie(a_, b_) = bed_.AddPair();
  }
  /// Sends a message from the first device to the second one.
  void SendOne(uint8_t flags = UROCE_SEND_SIGNALED) {
    b_->PostReceive(1, {Testbed::Sge(to_, 0, kBytes)});
    a_->PostSend({.flags = flags, .wr_id = 1, .list = {Testbed::Sge(from_, 0, kBytes)}});
    uroce_cqe cqe;
    ASSERT_TRUE(bed_.RunUntil([&] { return b_->PollReceive(cqe); }));
    ASSERT_EQ(cqe.status, 0);
    if (flags == 0) return;
    ASSERT_TRUE(bed_.RunUntil([&] { return a_->PollSend(cqe); }));
    ASSERT_EQ(cqe.status, 0);
  }
  template <typename Kind>
  HistogramSums Of(int device, Kind DeviceHistograms::*histogram) const {
    return bed_.devices[device]->Sum(histogram);
  }

  Testbed bed_;
  Endpoint* a_ = nullptr;
  Endpoint* b_ = nullptr;
  std::vector<uint8_t> source_ = std::vector<uint8_t>(kBytes);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& to_ = bed_.Register(target_.data(), kBytes, kAllAccess, MrMode::kMapped);
};

TEST_F(WorkerHistogramsTest, MessagesAreCountedOnceOnEachSide) {
  Connect(false);
  SendOne();
  SendOne(0);
  const HistogramSums sent = Of(0, &DeviceHistograms::sent_bytes);
  const HistogramSums received = Of(1, &DeviceHistograms::received_bytes);
  EXPECT_EQ(CountOf(sent), 2u) << "one without a completion, too";
  EXPECT_EQ(sent.sum, 2 * kBytes);
  EXPECT_EQ(sent.counts[5], 2u) << "4096 < 5000 <= 16384";
  EXPECT_EQ(received.counts, sent.counts);
  EXPECT_EQ(received.sum, 2 * kBytes);
  EXPECT_EQ(CountOf(Of(1, &DeviceHistograms::sent_bytes)), 0u);
}

// Time stands still within a turn, and passes by 10 us between two.
TEST_F(WorkerHistogramsTest, ACompletionTakesFromTheTurnThatTookTheWorkToThatOfItsAnswer) {
  Connect(false);
  SendOne();
  const HistogramSums took = Of(0, &DeviceHistograms::completion_ns);
  EXPECT_EQ(CountOf(took), 1u);
  EXPECT_GE(took.sum, 10'000u - 64);
  EXPECT_LE(took.sum, 100'000u);
  SendOne(0);
  EXPECT_EQ(CountOf(Of(0, &DeviceHistograms::completion_ns)), 1u) << "it has no completion";
  EXPECT_EQ(CountOf(Of(1, &DeviceHistograms::completion_ns)), 0u) << "a receive is no work to time";
}

TEST_F(WorkerHistogramsTest, WorksThatFailAreNotTimed) {
  Connect(false);
  a_->PostSend({.wr_id = 1, .list = {{from_.iova, kBytes, from_.key + 0x100}}});
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a_->PollSend(cqe); }));
  ASSERT_NE(cqe.status, 0);
  EXPECT_EQ(CountOf(Of(0, &DeviceHistograms::completion_ns)), 0u);
}

TEST_F(WorkerHistogramsTest, RoundTripsAreThoseOfSelectiveRepeat) {
  Connect(true);
  for (int i = 0; i < 3; ++i) SendOne();
  const HistogramSums trips = Of(0, &DeviceHistograms::round_trip_ns);
  EXPECT_GE(CountOf(trips), 3u) << "one for each message at least";
  EXPECT_LE(CountOf(trips), 15u) << "one for each packet at most";
  EXPECT_GT(trips.sum, 0u);
}

TEST_F(WorkerHistogramsTest, GoBackNMeasuresNoRoundTrips) {
  Connect(false);
  SendOne();
  EXPECT_EQ(CountOf(Of(0, &DeviceHistograms::round_trip_ns)), 0u);
}

TEST_F(WorkerHistogramsTest, TurnsThatFindWorkHaveALength) {
  const WorkerCounters& counters = bed_.workers->at(0).counters();
  bed_.Turn();
  bed_.Turn();
  HistogramSums idle;
  counters.turn_ns.AddTo(idle);
  Connect(false);
  SendOne();
  HistogramSums busy;
  counters.turn_ns.AddTo(busy);
  EXPECT_GT(CountOf(busy), CountOf(idle));
  EXPECT_EQ(busy.sum, counters.busy_ns.load());
}

}  // namespace
}  // namespace uroce::datapath
