// SPDX-License-Identifier: Apache-2.0
// When a flow may send (docs/protocol/congestion.md, section 8).
#include "pipeline/congestion/flow.h"

#include <gtest/gtest.h>

#include <array>

#include "pipeline/congestion/settings.h"

namespace uroce::congestion {
namespace {

constexpr uint32_t kPacket = 4200;

struct FlowRateTest : testing::Test {
  FlowRateTest() {
    environment.settings = DefaultsOf(Profile::kDcqcn);
    environment.line_bps = 40'000'000'000;
  }
  /// Sends whenever it may, from `now` to `end`. Returns the bytes.
  uint64_t SendAll(FlowRate& flow, Nanos now, Nanos end, Nanos turn) {
    uint64_t bytes = 0;
    for (; now < end; now = now + turn) {
      while (flow.MaySend(now) && flow.point() != nullptr) {
        flow.OnSent(flows, kPacket, 0, now);
        bytes += kPacket;
      }
    }
    return bytes;
  }
  /// Likewise, whether or not CNPs limit the flow.
  uint64_t SendLimited(FlowRate& flow, Nanos now, Nanos end, Nanos turn) {
    uint64_t bytes = 0;
    for (; now < end; now = now + turn) {
      for (; flow.MaySend(now); bytes += kPacket) flow.OnSent(flows, kPacket, 0, now);
    }
    return bytes;
  }
  Environment environment;
  LimitedFlows flows{8};
};

// [cc.pace.free] Without a CNP nothing is limited, and there is no state.
TEST_F(FlowRateTest, WithoutACnpThereIsNoState) {
  FlowRate flow;
  for (int i = 0; i < 1'000; ++i) flow.OnSent(flows, kPacket, 1 << 20, Nanos(0));
  EXPECT_TRUE(flow.MaySend(Nanos(0)));
  EXPECT_EQ(flow.point(), nullptr);
  EXPECT_EQ(flows.size(), 0u);
}

// [cc.pace.rate] Bytes of the wire at the rate, and a burst at most, however seldom the worker
// polls.
TEST_F(FlowRateTest, TheRateIsKept) {
  for (const Nanos turn : {Nanos(100), Nanos(8'192), Nanos(60'000)}) {
    environment.settings.rp.rate_to_set_on_first_cnp = 2'000;
    environment.settings.rp.rpg_ai_rate = 1;
    environment.settings.rp.rpg_time_reset = 1'000'000;
    environment.settings.rp.rpg_byte_reset = 1u << 30;
    FlowRate flow;
    ASSERT_TRUE(flow.OnCnp(environment, flows, Nanos(0)));
    ASSERT_NEAR(flow.point()->rate_bps(), 1e9, 1);
    const uint64_t bytes = SendAll(flow, Nanos(1'000'000), Nanos(101'000'000), turn);
    EXPECT_LE(bytes, 12'500'000u + kMaxBurstBytes);
    EXPECT_GE(bytes, 12'500'000u * 98 / 100);
    flow.Reset(flows);
  }
}

// [cc.pace.rate] A packet's time at the lowest rate is 34 ms: the rate rises meanwhile, and it
// counts.
TEST_F(FlowRateTest, AWaitEndsSoonerWhenTheRateRises) {
  FlowRate flow;
  Nanos now(0);
  for (; now < Micros(1'000); now = now + Micros(50)) {
    ASSERT_TRUE(flow.OnCnp(environment, flows, now));
  }
  ASSERT_EQ(flow.point()->rate_bps(), 1e6);
  flow.OnSent(flows, kPacket, 0, now);
  const Nanos first = flow.next_send();
  ASSERT_GT(first, now + Micros(30'000));
  flows.Tend(now);
  EXPECT_EQ(flow.next_send(), first) << "the rate is what it was";
  for (int i = 0; i < 20; ++i) flows.Tend(now = now + Micros(100));
  const double rate_bps = flow.point()->rate_bps();
  ASSERT_GT(rate_bps, 100e6);
  EXPECT_LE(flow.next_send(), now + TimeOf(kPacket, rate_bps));
}

// [cc.pace.limit] A limit that the program set holds however the rate rises.
TEST_F(FlowRateTest, ARisingRateLeavesTheLimit) {
  FlowRate flow;
  flow.SetLimit(1e6);
  Nanos now(0);
  for (; now < Micros(1'000); now = now + Micros(50)) {
    ASSERT_TRUE(flow.OnCnp(environment, flows, now));
  }
  flow.OnSent(flows, kPacket, 0, now);
  for (int i = 0; i < 20; ++i) flows.Tend(now = now + Micros(100));
  EXPECT_GE(flow.next_send(), Micros(1'000) + TimeOf(kPacket, 1e6) - Micros(2'000));
}

// [cc.pace.burst] After a pause a burst leaves at once, and no more.
TEST_F(FlowRateTest, ABurstAfterAPause) {
  FlowRate flow;
  ASSERT_TRUE(flow.OnCnp(environment, flows, Nanos(0)));
  const Nanos now = Micros(50);
  uint64_t bytes = 0;
  for (; flow.MaySend(now); bytes += kPacket) flow.OnSent(flows, kPacket, 0, now);
  EXPECT_LE(bytes, kMaxBurstBytes + 2 * kPacket);
  EXPECT_GE(bytes, kMaxBurstBytes / 2);
  EXPECT_GT(flow.next_send(), now);
}

// [cc.pace.read] A READ request counts with all that will answer it.
TEST_F(FlowRateTest, AReadRequestCountsItsAnswer) {
  FlowRate flow;
  ASSERT_TRUE(flow.OnCnp(environment, flows, Nanos(0)));
  flow.OnSent(flows, 100, 1 << 20, Nanos(0));
  const Nanos expected = TimeOf((1 << 20) + 100, 20e9);
  EXPECT_NEAR(static_cast<double>(flow.next_send().count()), static_cast<double>(expected.count()),
              30'000);
}

// [cc.rp.state] The state goes when the rate is back: by a packet that is sent, or by looking after
// the flows. Others keep theirs.
TEST_F(FlowRateTest, TheStateGoesWhenTheRateIsBack) {
  std::array<FlowRate, 3> all;
  for (FlowRate& flow : all) ASSERT_TRUE(flow.OnCnp(environment, flows, Nanos(0)));
  EXPECT_EQ(flows.size(), 3u);
  const Nanos later = Micros(55 * 20);
  ASSERT_TRUE(all[2].OnCnp(environment, flows, later));
  all[0].OnSent(flows, kPacket, 0, later);
  EXPECT_EQ(all[0].point(), nullptr);
  EXPECT_EQ(flows.size(), 2u);
  EXPECT_NEAR(all[2].point()->rate_bps(), 20.5e9, 1e9);
  for (int i = 0; i < 3; ++i) flows.Tend(later);
  EXPECT_EQ(all[1].point(), nullptr);
  EXPECT_EQ(flows.size(), 1u);
  EXPECT_NEAR(all[2].point()->rate_bps(), 20.5e9, 1e9);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(all[i].OnCnp(environment, flows, later));
  for (int i = 0; i < 2; ++i) EXPECT_NE(all[i].point(), all[2].point()) << "its own state";
  for (FlowRate& flow : all) flow.Reset(flows);
  EXPECT_EQ(flows.size(), 0u);
}

// [cc.rp.state] A time that a low rate has said does not outlive it.
TEST_F(FlowRateTest, ATimeEndsWithItsRate) {
  environment.settings.rp.rate_to_set_on_first_cnp = 2;
  environment.settings.rp.rpg_ai_rate = 1'000'000;
  FlowRate flow;
  ASSERT_TRUE(flow.OnCnp(environment, flows, Nanos(0)));
  for (int i = 0; i < 100; ++i) flow.OnSent(flows, kPacket, 0, Nanos(0));
  ASSERT_FALSE(flow.MaySend(Micros(55 * 30)));
  flows.Tend(Micros(55 * 30));
  EXPECT_TRUE(flow.MaySend(Micros(55 * 30)));
}

// [cc.pace.rate] A rate that grows is taken up at once; the byte counter makes it grow too.
TEST_F(FlowRateTest, AGrowingRateIsTakenUp) {
  environment.settings.rp.rpg_byte_reset = 1;
  environment.settings.rp.rpg_max_rate = 0;
  FlowRate flow;
  ASSERT_TRUE(flow.OnCnp(environment, flows, Nanos(0)));
  flow.OnSent(flows, 64, 0, Nanos(0));
  ASSERT_NEAR(flow.point()->rate_bps(), 30e9, 1);
  const Nanos before = flow.next_send();
  flow.OnSent(flows, 64 * 1000 - 64 * 998, 0, Nanos(0));
  EXPECT_GT(flow.point()->rate_bps(), 34e9);
  EXPECT_GT(flow.next_send(), before);
  EXPECT_LT(flow.next_send() - before, TimeOf(128, 34e9));
}

// [cc.rp.bound] There is a bound; a flow beyond it goes on as it was.
TEST_F(FlowRateTest, ABoundedNumberOfFlows) {
  std::array<FlowRate, 9> all;
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(all[i].OnCnp(environment, flows, Nanos(0)));
  EXPECT_FALSE(all[8].OnCnp(environment, flows, Nanos(0)));
  EXPECT_TRUE(all[8].MaySend(Nanos(0)));
  all[3].Reset(flows);
  EXPECT_TRUE(all[8].OnCnp(environment, flows, Nanos(0)));
}

// [cc.pace.limit] A limit needs no CNP and no state, and is that of the flow at each look.
TEST_F(FlowRateTest, ALimitIsKeptWithoutCnps) {
  for (const Nanos turn : {Nanos(100), Nanos(8'192), Nanos(400'000)}) {
    FlowRate flow;
    flow.SetLimit(1e9);
    const uint64_t bytes = SendLimited(flow, Nanos(1'000'000), Nanos(101'000'000), turn);
    EXPECT_LE(bytes, 12'500'000u + kMaxBurstBytes + kPacket);
    EXPECT_GE(bytes, 12'500'000u * 98 / 100);
    EXPECT_EQ(flows.size(), 0u);
    flow.Reset(flows);
    EXPECT_EQ(flow.limit_bps(), 1e9);
    flow.SetLimit(0);
    EXPECT_EQ(flow.limit_bps(), 0);
    EXPECT_TRUE(flow.MaySend(Nanos(101'000'000)));
    for (int i = 0; i < 1000; ++i) flow.OnSent(flows, kPacket, 0, Nanos(102'000'000));
    EXPECT_TRUE(flow.MaySend(Nanos(102'000'000)));
  }
}

// [cc.pace.limit] A new limit, or none, counts at once; a time that CNPs gave remains.
TEST_F(FlowRateTest, ANewLimitCountsAtOnce) {
  FlowRate flow;
  flow.SetLimit(1e5);
  for (int i = 0; i < 4; ++i) flow.OnSent(flows, kPacket, 0, Nanos(0));
  ASSERT_FALSE(flow.MaySend(Micros(500'000)));
  flow.SetLimit(1e9);
  EXPECT_TRUE(flow.MaySend(Micros(1)));
  ASSERT_TRUE(flow.OnCnp(environment, flows, Micros(1)));
  for (int i = 0; i < 100; ++i) flow.OnSent(flows, kPacket, 0, Micros(1));
  const Nanos by_cnp = flow.next_send();
  ASSERT_GT(by_cnp, Micros(1));
  flow.SetLimit(0);
  EXPECT_EQ(flow.next_send(), by_cnp);
}

// [cc.pace.limit] A slow flow keeps its rate though each packet leaves late.
TEST_F(FlowRateTest, ALateWorkerKeepsASlowLimit) {
  FlowRate flow;
  flow.SetLimit(100e6);
  const uint64_t bytes = SendLimited(flow, Nanos(0), Micros(200'000), Micros(550));
  EXPECT_NEAR(static_cast<double>(bytes), 2.5e6, 0.05e6);
}

// [cc.pace.limit] The lower one of both decides: the limit while the rate of CNPs is higher and
// when it ends, that rate while it is lower.
TEST_F(FlowRateTest, TheLowerOfLimitAndRateDecides) {
  environment.settings.rp.rpg_ai_rate = 1;
  environment.settings.rp.rpg_time_reset = 1'000'000;
  environment.settings.rp.rpg_byte_reset = 1u << 30;
  environment.settings.rp.rate_to_set_on_first_cnp = 500;
  FlowRate flow;
  flow.SetLimit(1e9);
  ASSERT_TRUE(flow.OnCnp(environment, flows, Nanos(0)));
  ASSERT_NEAR(flow.point()->rate_bps(), 250e6, 1);
  const uint64_t slow = SendLimited(flow, Nanos(0), Nanos(100'000'000), Nanos(8'192));
  EXPECT_NEAR(static_cast<double>(slow), 3.125e6, 0.1e6);
  flow.Reset(flows);
  ASSERT_EQ(flow.point(), nullptr);
  const uint64_t limited = SendLimited(flow, Micros(100'000), Micros(200'000), Nanos(8'192));
  EXPECT_NEAR(static_cast<double>(limited), 12.5e6, 0.2e6);
  flow.SetLimit(100e6);
  const uint64_t less = SendLimited(flow, Micros(200'000), Micros(300'000), Nanos(8'192));
  EXPECT_NEAR(static_cast<double>(less), 1.25e6, 0.1e6);
}

// [cc.pace.limit] What the limit has said outlives the rate of CNPs.
TEST_F(FlowRateTest, ALimitOutlivesTheRateOfCnps) {
  FlowRate flow;
  flow.SetLimit(1e6);
  ASSERT_TRUE(flow.OnCnp(environment, flows, Nanos(0)));
  for (int i = 0; i < 4; ++i) flow.OnSent(flows, kPacket, 0, Nanos(0));
  const Nanos later = Micros(55 * 20);
  flows.Tend(later);
  ASSERT_EQ(flow.point(), nullptr);
  EXPECT_FALSE(flow.MaySend(later));
}

// [cc.pace.gap] A gap between packets counts from now on, without a credit for the past.
TEST_F(FlowRateTest, AGap) {
  FlowRate flow;
  flow.Delay(Micros(100), Micros(30));
  EXPECT_FALSE(flow.MaySend(Micros(130) - Nanos(1)));
  EXPECT_TRUE(flow.MaySend(Micros(130)));
}

}  // namespace
}  // namespace uroce::congestion
