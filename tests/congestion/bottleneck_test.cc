// SPDX-License-Identifier: Apache-2.0
// What the profiles make of senders that meet at one port: tables of numbers in
// pipeline/congestion/README.md.
#include "tests/congestion/bottleneck.h"

#include <gtest/gtest.h>

namespace uroce::congestion {
namespace {

constexpr Nanos kMillisecond{1'000'000};

/// 25 Gb/s, 10 us there and back, a megabyte of buffer.
BottleneckConfig Fabric(Profile profile, uint32_t senders) {
  return {.settings = DefaultsOf(profile), .senders = senders};
}

BottleneckConfig MarkedFabric(Profile profile, uint32_t senders) {
  BottleneckConfig config = Fabric(profile, senders);
  config.mark_from_bytes = 100'000;
  config.mark_all_bytes = 400'000;
  config.mark_most = 0.2;
  return config;
}

struct Result {
  double use;
  double fairness;
  double lost_of_sent;
  int64_t queue99;
};

/// The 10 ms behind the first `warm`.
Result Measure(const BottleneckConfig& config, Nanos warm = kMillisecond * 20,
               Nanos measured = kMillisecond * 10) {
  Bottleneck bottleneck(config);
  bottleneck.Run(warm);
  bottleneck.ResetCounts();
  bottleneck.Run(measured);
  // The judges: nobody sends before its time, and no flow gets two CNPs in an interval.
  EXPECT_EQ(bottleneck.too_early(), 0u);
  EXPECT_EQ(bottleneck.extra_cnps(), 0u);
  const auto& counts = bottleneck.counts();
  return {.use = bottleneck.Use(),
          .fairness = bottleneck.Fairness(),
          .lost_of_sent = counts.sent == 0
                              ? 0
                              : static_cast<double>(counts.lost) / static_cast<double>(counts.sent),
          .queue99 = bottleneck.Queue99()};
}

// [cc.net.taildrop] Nobody marks: use, fairness and losses by delay.
TEST(BottleneckTest, WithoutMarks) {
  for (const uint32_t senders : {2u, 8u, 64u}) {
    const Result result = Measure(Fabric(Profile::kDelay, senders));
    EXPECT_GE(result.use, 0.95) << senders;
    EXPECT_GE(result.fairness, 0.9) << senders;
    EXPECT_LE(result.lost_of_sent, 0.001) << senders;
  }
}

// [cc.net.taildrop] The same with a receiver that polls every 20 us.
TEST(BottleneckTest, WithoutMarksAndWithABusyReceiver) {
  for (const uint32_t senders : {2u, 8u, 64u}) {
    BottleneckConfig config = Fabric(Profile::kDelay, senders);
    config.receiver_turn = Nanos(20'000);
    const Result result = Measure(config);
    EXPECT_GE(result.use, 0.95) << senders;
    EXPECT_GE(result.fairness, 0.9) << senders;
    EXPECT_LE(result.lost_of_sent, 0.001) << senders;
  }
}

// [cc.net.taildrop] What would be without: most of what is sent is lost.
TEST(BottleneckTest, WithoutControlMostIsLost) {
  const Result result = Measure(Fabric(Profile::kOff, 64));
  EXPECT_GE(result.lost_of_sent, 0.5);
  EXPECT_LE(result.fairness, 0.5);
}

// [cc.net.marks] With marks nothing is lost, whoever reacts to them.
TEST(BottleneckTest, WithMarks) {
  for (const Profile profile : {Profile::kDelay, Profile::kDcqcn}) {
    for (const uint32_t senders : {2u, 8u}) {
      const Result result = Measure(MarkedFabric(profile, senders));
      EXPECT_GE(result.use, 0.95) << senders;
      EXPECT_GE(result.fairness, 0.97) << senders;
      EXPECT_EQ(result.lost_of_sent, 0) << senders;
      EXPECT_LE(result.queue99, 400'000) << senders;
    }
  }
  const Result many = Measure(MarkedFabric(Profile::kDelay, 64));
  EXPECT_GE(many.use, 0.95);
  EXPECT_GE(many.fairness, 0.9);
  EXPECT_EQ(many.lost_of_sent, 0);
}

// [cc.net.marks] Two flows of NVIDIA's form share a port too.
TEST(BottleneckTest, TwoOfNvidiasForm) {
  const Result result = Measure(MarkedFabric(Profile::kDcqcnMlx, 2));
  EXPECT_GE(result.use, 0.95);
  EXPECT_GE(result.fairness, 0.97);
}

// [cc.net.slow] 1 Gb/s with little buffer, and 40 ms there and back.
TEST(BottleneckTest, SlowNetworks) {
  BottleneckConfig config = Fabric(Profile::kDelay, 8);
  config.line_bps = config.port_bps = 1e9;
  config.buffer_bytes = 256'000;
  config.mtu_bytes = 1024;
  const Result near = Measure(config, kMillisecond * 200, kMillisecond * 100);
  EXPECT_GE(near.use, 0.95);
  EXPECT_GE(near.fairness, 0.97);
  EXPECT_EQ(near.lost_of_sent, 0);
  config.one_way = kMillisecond * 20;
  config.buffer_bytes = 4'000'000;
  config.mtu_bytes = 4096;
  config.senders = 2;
  const Result far = Measure(config, kMillisecond * 8'000, kMillisecond * 1'000);
  EXPECT_GE(far.use, 0.9);
  EXPECT_LE(far.lost_of_sent, 0.001);
}

// [cc.net.alone] Alone on an idle network a flow has all of it, and waits for nothing.
TEST(BottleneckTest, AFlowAloneHasAll) {
  const double without = Measure(Fabric(Profile::kOff, 1)).use;
  for (const Profile profile : {Profile::kDelay, Profile::kDcqcn, Profile::kDcqcnMlx}) {
    const Result result = Measure(Fabric(profile, 1));
    EXPECT_GE(result.use, without * 0.99);
    EXPECT_LE(result.queue99, 10'000);
  }
}

}  // namespace
}  // namespace uroce::congestion
