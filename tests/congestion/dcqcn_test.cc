// SPDX-License-Identifier: Apache-2.0
// The paper's reaction point: the tables of docs/protocol/congestion.md, section 6.
#include "pipeline/congestion/dcqcn.h"

#include <gtest/gtest.h>

#include "pipeline/congestion/settings.h"

namespace uroce::congestion {
namespace {

constexpr double kGiga = 1e9;
constexpr double kLine = 40 * kGiga;
/// The tables have six digits.
constexpr double kRounding = 0.5e-6;

struct DcqcnTest : testing::Test {
  void Expect(uint32_t micros, double rate_gbps, double target_gbps, double alpha) {
    point.Advance(settings, Micros(micros));
    EXPECT_NEAR(point.rate_bps() / kGiga, rate_gbps, kRounding) << "at " << micros;
    EXPECT_NEAR(point.target_bps() / kGiga, target_gbps, kRounding) << "at " << micros;
    if (alpha == 1) return;  // The paper's table tells alpha before the first CNP's update.
    EXPECT_NEAR(point.alpha(), alpha, kRounding) << "at " << micros;
  }
  ReactionSettings settings;
  Dcqcn point{settings, kLine, Nanos(0)};
};

// [cc.rp.table] The worked example: one CNP, then timer events, then a CNP.
TEST_F(DcqcnTest, TheWorkedExample) {
  Expect(0, 20, 40, 1);
  Expect(55, 30, 40, 0.996094);
  Expect(110, 35, 40, 0.992203);
  Expect(165, 37.5, 40, 0.988327);
  Expect(220, 38.75, 40, 0.984466);
  Expect(275, 39.375, 40, 0.980621);
  Expect(330, 39.6875, 40, 0.976790);
  Expect(385, 39.84375, 40, 0.972975);
  point.OnCnp(settings, Micros(385));
  Expect(385, 20.460272, 39.84375, 0.973080);
  Expect(440, 30.152011, 39.84375, 0.969279);
}

// [cc.rp.table] The same when nobody looks for long: timers are played when they matter.
TEST_F(DcqcnTest, TimersArePlayedLate) {
  Expect(385, 39.84375, 40, 0.972975);
  point.OnCnp(settings, Micros(385));
  Expect(440, 30.152011, 39.84375, 0.969279);
}

// [cc.rp.hyper] The hyper example, from T = BC = 5.
TEST(Dcqcn, TheHyperExample) {
  const ReactionSettings settings;
  DcqcnRates rates{.current = 10 * kGiga, .target = 20 * kGiga};
  const auto expect = [&](uint32_t timer, uint32_t bytes, double current, double target) {
    rates = Increase(settings, rates, timer, bytes, kLine);
    EXPECT_NEAR(rates.current / kGiga, current, kRounding);
    EXPECT_NEAR(rates.target / kGiga, target, kRounding);
  };
  expect(6, 5, 15.02, 20.04);
  expect(6, 6, 17.63, 20.24);
  expect(7, 6, 19.035, 20.44);
}

// [cc.rp.hyper] A flow counts its events so.
TEST(Dcqcn, BothCountersBehindTheThresholdIncreaseInTheHyperPhase) {
  // A first rate of 20 Gb/s, cut to 10 with 20 as its target.
  ReactionSettings settings;
  settings.rate_to_set_on_first_cnp = 20'000;
  settings.rpg_byte_reset = 1;
  Dcqcn point(settings, kLine, Nanos(0));
  EXPECT_NEAR(point.rate_bps(), 10 * kGiga, 1);
  EXPECT_NEAR(point.target_bps(), 20 * kGiga, 1);
  for (int i = 0; i < 4; ++i) point.OnSent(settings, kByteUnit);  // BC = 4: fast recovery.
  EXPECT_NEAR(point.target_bps(), 20 * kGiga, 1);
  point.Advance(settings, Micros(4 * 55));  // T = 4.
  EXPECT_NEAR(point.target_bps(), 20 * kGiga, 1);
  point.Advance(settings, Micros(5 * 55));  // T = 5: additive.
  EXPECT_NEAR(point.target_bps(), 20.04 * kGiga, 1);
  point.OnSent(settings, kByteUnit);  // BC = 5: additive.
  EXPECT_NEAR(point.target_bps(), 20.08 * kGiga, 1);
  double rate = point.rate_bps();
  point.Advance(settings, Micros(6 * 55));  // T = 6, BC = 5: additive.
  EXPECT_NEAR(point.target_bps(), 20.12 * kGiga, 1);
  EXPECT_NEAR(point.rate_bps(), (rate + 20.12 * kGiga) / 2, 1);
  rate = point.rate_bps();
  point.OnSent(settings, kByteUnit);  // BC = 6: hyper, i = 1.
  EXPECT_NEAR(point.target_bps(), 20.32 * kGiga, 1);
  EXPECT_NEAR(point.rate_bps(), (rate + 20.32 * kGiga) / 2, 1);
  point.Advance(settings, Micros(7 * 55));  // (7, 6): i = 1.
  EXPECT_NEAR(point.target_bps(), 20.52 * kGiga, 1);
  point.OnSent(settings, kByteUnit);  // (7, 7): i = 2.
  EXPECT_NEAR(point.target_bps(), 20.92 * kGiga, 1);
}

// [cc.rp.monitor] A second CNP within the period does not cut again, and the first behind it does.
TEST_F(DcqcnTest, OneCutInAPeriod) {
  for (uint32_t micros = 1; micros < settings.rate_reduce_monitor_period; ++micros) {
    point.Advance(settings, Micros(micros));
    point.OnCnp(settings, Micros(micros));
  }
  EXPECT_DOUBLE_EQ(point.rate_bps(), kLine / 2);
  point.OnCnp(settings, Micros(settings.rate_reduce_monitor_period));
  EXPECT_LT(point.rate_bps(), kLine / 2);
}

// [cc.rp.floor] However many CNPs come, the rate is never below the floor.
TEST_F(DcqcnTest, AFloodDoesNotPushTheRateBelowTheFloor) {
  for (uint32_t i = 1; i < 5'000; ++i) {
    const Nanos now(int64_t{i} * 51'000);
    point.Advance(settings, now);
    point.OnCnp(settings, now);
    ASSERT_GE(point.rate_bps(), settings.rpg_min_rate * kMegabit);
  }
  EXPECT_NEAR(point.rate_bps(), settings.rpg_min_rate * kMegabit, kMegabit);
}

// [cc.rp.back] After the last CNP the flow comes back to line rate, from the floor too.
TEST_F(DcqcnTest, TheRateComesBack) {
  for (uint32_t i = 1; i < 1'000; ++i) {
    point.Advance(settings, Micros(51 * i));
    point.OnCnp(settings, Micros(51 * i));
  }
  EXPECT_FALSE(point.is_back());
  point.Advance(settings, Micros(51'000 + 55 * 1'100));
  EXPECT_TRUE(point.is_back());
}

// [cc.rp.back] After hours, which are more events than are played at once.
TEST_F(DcqcnTest, AfterHoursItIsBackSoon) {
  const Nanos hour(3'600'000'000'000);
  settings.rpg_ai_rate = 1;
  point.Advance(settings, hour);
  point.Advance(settings, hour * 2);
  EXPECT_TRUE(point.is_back());
}

// [cc.rp.bytes] The byte counter begins anew with a cut.
TEST_F(DcqcnTest, ACutClearsTheByteCounter) {
  const uint32_t all_but_one = settings.rpg_byte_reset * kByteUnit - 1;
  point.OnSent(settings, all_but_one);
  point.Advance(settings, Micros(50));
  point.OnCnp(settings, Micros(50));
  const double rate = point.rate_bps();
  point.OnSent(settings, all_but_one);
  EXPECT_DOUBLE_EQ(point.rate_bps(), rate);
  point.OnSent(settings, 1);
  EXPECT_GT(point.rate_bps(), rate);
}

// [cc.rp.max] rpg_max_rate is where the flow is not limited any more.
TEST(Dcqcn, AMaximumRateEndsTheLimit) {
  ReactionSettings settings;
  settings.rpg_max_rate = 10'000;
  Dcqcn point(settings, kLine, Nanos(0));
  EXPECT_DOUBLE_EQ(point.rate_bps(), 5 * kGiga);
  point.Advance(settings, Micros(55 * 12));
  EXPECT_TRUE(point.is_back());
  EXPECT_LE(point.rate_bps(), 10 * kGiga);
}

// [cc.rp.restart] A cut restarts both timers: between two events it does not leave them as they
// were.
TEST_F(DcqcnTest, ACutRestartsBothTimers) {
  point.Advance(settings, Micros(100));
  point.OnCnp(settings, Micros(100));
  const double rate = point.rate_bps();
  const double alpha = point.alpha();
  point.Advance(settings, Micros(154));
  EXPECT_EQ(point.rate_bps(), rate);
  EXPECT_EQ(point.alpha(), alpha);
  point.Advance(settings, Micros(155));
  EXPECT_GT(point.rate_bps(), rate);
  EXPECT_LT(point.alpha(), alpha);
}

// [cc.rp.bytes] Bytes beyond an event count for the next one.
TEST_F(DcqcnTest, BytesBeyondAnEventCount) {
  settings.rpg_byte_reset = 1;
  point.OnSent(settings, 96);
  EXPECT_EQ(point.rate_bps(), 30 * kGiga);
  point.OnSent(settings, 96);
  EXPECT_EQ(point.rate_bps(), 37.5 * kGiga) << "two more events";
}

// [cc.rp.step] Steps that are not set are the paper's, and less on slow links.
TEST_F(DcqcnTest, StepsGrowWithTheLine) {
  settings = DefaultsOf(Profile::kDcqcn).rp;
  const DcqcnRates rates{.current = 1e8, .target = 2e8};
  EXPECT_NEAR(Increase(settings, rates, 5, 5, 40e9).target, 2e8 + 40e6, 1);
  EXPECT_NEAR(Increase(settings, rates, 5, 5, 1e9).target, 2e8 + 2.5e6, 1);
  EXPECT_NEAR(Increase(settings, rates, 6, 6, 40e9).target, 2e8 + 200e6, 1);
  EXPECT_NEAR(Increase(settings, rates, 7, 8, 1e9).target, 2e8 + 2 * 12.5e6, 1);
  settings.rpg_ai_rate = 3;
  settings.rpg_hai_rate = 9;
  EXPECT_NEAR(Increase(settings, rates, 5, 5, 1e9).target, 2e8 + 3e6, 1);
  EXPECT_NEAR(Increase(settings, rates, 6, 6, 1e9).target, 2e8 + 9e6, 1);
}

}  // namespace
}  // namespace uroce::congestion
