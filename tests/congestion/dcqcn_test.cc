// SPDX-License-Identifier: Apache-2.0
// DCQCN: the reaction point in both forms, and the notification point.
#include <gtest/gtest.h>

#include <vector>

#include "pipeline/congestion/dcqcn.h"
#include "pipeline/congestion/settings.h"

namespace uroce::congestion {
namespace {

// The paper's reaction point: the tables of docs/protocol/congestion.md, section 6.

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

// [cc.rp.table] The same when the worker polls rarely: timers are played when they matter.
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

// [cc.rp.bytes] The byte counter begins again with a cut.
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

// NVIDIA's reaction point: the numbers of docs/protocol/congestion.md, section 7.

constexpr double kMlxLine = 100e9;

struct DcqcnMlxTest : testing::Test {
  Settings all = DefaultsOf(Profile::kDcqcnMlx);
  ReactionSettings& settings = all.rp;

  uint64_t Rate(const DcqcnMlx& point) { return static_cast<uint64_t>(point.rate_bps() / 1e6); }
  uint64_t Target(const DcqcnMlx& point) { return static_cast<uint64_t>(point.target_bps() / 1e6); }
};

// [cc.mlx.alpha] 1023 1018 1013 ... without a CNP. The first period has the first CNP in it.
TEST_F(DcqcnMlxTest, AlphaDecays) {
  DcqcnMlx point(settings, kMlxLine, Nanos(0));
  point.Advance(settings, Micros(1));
  std::vector<uint32_t> alphas;
  for (uint32_t i = 1; i <= 9; ++i) {
    point.Advance(settings, Micros(i));
    alphas.push_back(point.alpha());
  }
  EXPECT_EQ(alphas, (std::vector<uint32_t>{1023, 1018, 1013, 1008, 1003, 998, 993, 988, 983}));
}

// [cc.mlx.alpha] 0 5 9 13 ... with a CNP in every period.
TEST_F(DcqcnMlxTest, AlphaGrows) {
  settings.initial_alpha_value = 0;
  settings.rate_to_set_on_first_cnp = 50'000;
  DcqcnMlx point(settings, kMlxLine, Nanos(0));
  std::vector<uint32_t> alphas = {point.alpha()};
  for (uint32_t i = 1; i <= 8; ++i) {
    point.Advance(settings, Micros(i));
    alphas.push_back(point.alpha());
    point.OnCnp(settings, Micros(i));
  }
  EXPECT_EQ(alphas, (std::vector<uint32_t>{0, 5, 9, 13, 17, 21, 25, 29, 33}));
}

// [cc.mlx.alpha] It has ten bits, whatever its gain.
TEST_F(DcqcnMlxTest, AlphaHasTenBits) {
  settings.dce_tcp_g = 0;
  DcqcnMlx point(settings, kMlxLine, Nanos(0));
  point.Advance(settings, Micros(1));
  EXPECT_EQ(point.alpha(), 1023u);
}

// [cc.mlx.cut] The first cut at 100 Gb/s, and the timer steps behind it.
TEST_F(DcqcnMlxTest, TheFirstCutAndTheWayBack) {
  DcqcnMlx point(settings, kMlxLine, Nanos(0));
  EXPECT_EQ(Rate(point), 50049u);
  const std::vector<uint64_t> rates = {75024, 87512, 93756, 96878};
  for (uint32_t i = 0; i < rates.size(); ++i) {
    point.Advance(settings, Micros(300 * (i + 1)) - Nanos(1));
    EXPECT_LT(Rate(point), rates[i]);
    point.Advance(settings, Micros(300 * (i + 1)));
    EXPECT_EQ(Rate(point), rates[i]);
    EXPECT_EQ(Target(point), 100000u);
  }
  point.Advance(settings, Micros(300 * 20));
  EXPECT_TRUE(point.is_back());
}

// [cc.mlx.monitor] A CNP cuts at the end of its period, once, however many there are.
TEST_F(DcqcnMlxTest, ACutAtTheEndOfThePeriod) {
  DcqcnMlx point(settings, kMlxLine, Nanos(0));
  point.OnCnp(settings, Micros(1));
  point.OnCnp(settings, Micros(2));
  point.Advance(settings, Micros(4) - Nanos(1));
  EXPECT_EQ(Rate(point), 50049u);
  point.Advance(settings, Micros(4));
  const uint64_t cut = 50049ull * point.alpha() >> 11;
  EXPECT_NEAR(static_cast<double>(Rate(point)), static_cast<double>(50049 - cut), 150);
  const uint64_t after = Rate(point);
  point.Advance(settings, Micros(100));
  EXPECT_EQ(Rate(point), after) << "no CNP, no cut";
}

// [cc.mlx.target] Where the target is lowered: never by default before a stage; behind a timer or
// a byte event; always with clamp_tgt_rate.
TEST_F(DcqcnMlxTest, WhenACutLowersTheTarget) {
  const auto target_after = [&](bool timer, bool bytes) {
    DcqcnMlx point(settings, kMlxLine, Nanos(0));
    const Nanos now = Micros(timer ? 300 : 100);
    point.Advance(settings, now);
    if (bytes) point.OnSent(settings, settings.rpg_byte_reset * kByteUnit);
    point.OnCnp(settings, now);
    point.Advance(settings, now + Micros(4));
    return Target(point);
  };
  EXPECT_EQ(target_after(false, false), 100000u);
  EXPECT_EQ(target_after(true, false), 75024u);
  EXPECT_EQ(target_after(false, true), 75024u);
  settings.clamp_tgt_rate_after_time_inc = 0;
  EXPECT_EQ(target_after(true, false), 100000u);
  EXPECT_EQ(target_after(false, true), 75024u);
  settings.clamp_tgt_rate = 1;
  EXPECT_EQ(target_after(false, false), 50049u);
}

// [cc.mlx.increase] Below the threshold nothing is added, at it ai_rate, with both behind it
// hai_rate.
TEST_F(DcqcnMlxTest, StagesAddToTheTarget) {
  settings.rate_to_set_on_first_cnp = 1'000;
  settings.rpg_threshold = 2;
  DcqcnMlx point(settings, kMlxLine, Nanos(0));
  EXPECT_EQ(Rate(point), 1'000u);
  const uint32_t step = settings.rpg_byte_reset * kByteUnit;
  point.OnSent(settings, step);
  EXPECT_EQ(Target(point), 1'000u);
  point.OnSent(settings, step);
  EXPECT_EQ(Target(point), 1'005u);
  point.OnSent(settings, step);
  point.Advance(settings, Micros(600));
  EXPECT_EQ(Target(point), 1'020u);
  point.Advance(settings, Micros(900));
  EXPECT_EQ(Target(point), 1'070u);
}

// [cc.mlx.floor] rpg_min_dec_fac bounds one cut, rpg_min_rate all.
TEST_F(DcqcnMlxTest, BoundsOfACut) {
  settings.rpg_min_dec_fac = 80;
  EXPECT_EQ(Rate(DcqcnMlx(settings, kMlxLine, Nanos(0))), 80'000u);
  settings.rpg_min_dec_fac = 0;
  settings.rpg_gd = 10;
  settings.rpg_min_rate = 500;
  DcqcnMlx point(settings, kMlxLine, Nanos(0));
  for (uint32_t i = 1; i < 1'000; ++i) {
    point.Advance(settings, Micros(4 * i));
    point.OnCnp(settings, Micros(4 * i));
    ASSERT_GE(Rate(point), 500u);
  }
  EXPECT_EQ(Rate(point), 500u);
}

// [cc.mlx.back] A cut that is due is not forgotten because the rate is back.
TEST_F(DcqcnMlxTest, ACutIsDueBeforeItIsBack) {
  settings.rate_to_set_on_first_cnp = 99'950;
  DcqcnMlx point(settings, kMlxLine, Nanos(0));
  EXPECT_TRUE(point.is_back());
  point.OnCnp(settings, Micros(1));
  EXPECT_FALSE(point.is_back());
  point.Advance(settings, Micros(4));
  EXPECT_LT(Rate(point), 60'000u);
}

// When marks are answered (docs/protocol/congestion.md, section 4).

using wire::Opcode;
using wire::Service;

// [cc.np.interval] At most one CNP in an interval; the next mark behind it gets one.
TEST(NotificationPoint, OneCnpInAnInterval) {
  NotificationPoint point;
  const Nanos interval = Micros(50);
  EXPECT_TRUE(point.OnMarked(Micros(7), interval));
  EXPECT_FALSE(point.OnMarked(Micros(8), interval));
  EXPECT_FALSE(point.OnMarked(Micros(57) - Nanos(1), interval));
  EXPECT_TRUE(point.OnMarked(Micros(57), interval));
  EXPECT_FALSE(point.OnMarked(Micros(106), interval));
}

// [cc.np.burst] Without an interval: one for a burst, in which time stands still.
TEST(NotificationPoint, OneCnpInABurst) {
  NotificationPoint point;
  EXPECT_TRUE(point.OnMarked(Nanos(0), Nanos(0)));
  EXPECT_FALSE(point.OnMarked(Nanos(0), Nanos(0)));
  EXPECT_TRUE(point.OnMarked(Nanos(1), Nanos(0)));
}

// [cc.np.datagrams] Flows of datagrams are told apart by address and queue pair.
TEST(NotificationPoint, EachSenderOfDatagramsIsAFlow) {
  DatagramNotificationPoints points;
  const Gid one{{1}};
  const Gid two{{2}};
  EXPECT_TRUE(points.OnMarked(one, Qpn(5), Nanos(0), Micros(50)));
  EXPECT_FALSE(points.OnMarked(one, Qpn(5), Micros(1), Micros(50)));
  EXPECT_TRUE(points.OnMarked(one, Qpn(6), Micros(1), Micros(50)));
  EXPECT_TRUE(points.OnMarked(two, Qpn(5), Micros(1), Micros(50)));
}

// [cc.np.data] Marks on data are answered, of all services; on CNPs and acknowledgements never.
TEST(NotificationPoint, DataAlone) {
  for (const Service service : {Service::kRc, Service::kXrc}) {
    EXPECT_TRUE(IsNotified(OpcodeOf(service, Opcode::kWriteMiddle)));
    EXPECT_TRUE(IsNotified(OpcodeOf(service, Opcode::kReadRequest)));
    EXPECT_TRUE(IsNotified(OpcodeOf(service, Opcode::kReadResponseMiddle)));
    EXPECT_FALSE(IsNotified(OpcodeOf(service, Opcode::kAcknowledge)));
    EXPECT_FALSE(IsNotified(OpcodeOf(service, Opcode::kAtomicAcknowledge)));
    EXPECT_FALSE(IsNotified(OpcodeOf(service, Opcode::kSelectiveAcknowledge)));
  }
  EXPECT_TRUE(IsNotified(OpcodeOf(Service::kUc, Opcode::kSendOnly)));
  EXPECT_TRUE(IsNotified(OpcodeOf(Service::kUd, Opcode::kSendOnly)));
  EXPECT_FALSE(IsNotified(Opcode::kCnp));
}

}  // namespace
}  // namespace uroce::congestion
