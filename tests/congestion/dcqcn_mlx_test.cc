// SPDX-License-Identifier: Apache-2.0
// NVIDIA's reaction point: the numbers of docs/protocol/congestion.md, section 7.
#include "pipeline/congestion/dcqcn.h"

#include <gtest/gtest.h>

#include <vector>

#include "pipeline/congestion/settings.h"

namespace uroce::congestion {
namespace {

constexpr double kLine = 100e9;

struct DcqcnMlxTest : testing::Test {
  Settings all = DefaultsOf(Profile::kDcqcnMlx);
  ReactionSettings& settings = all.rp;

  uint64_t Rate(const DcqcnMlx& point) { return static_cast<uint64_t>(point.rate_bps() / 1e6); }
  uint64_t Target(const DcqcnMlx& point) { return static_cast<uint64_t>(point.target_bps() / 1e6); }
};

// [cc.mlx.alpha] 1023 1018 1013 ... without a CNP. The first period has the first CNP in it.
TEST_F(DcqcnMlxTest, AlphaDecays) {
  DcqcnMlx point(settings, kLine, Nanos(0));
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
  DcqcnMlx point(settings, kLine, Nanos(0));
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
  DcqcnMlx point(settings, kLine, Nanos(0));
  point.Advance(settings, Micros(1));
  EXPECT_EQ(point.alpha(), 1023u);
}

// [cc.mlx.cut] The first cut at 100 Gb/s, and the timer steps behind it.
TEST_F(DcqcnMlxTest, TheFirstCutAndTheWayBack) {
  DcqcnMlx point(settings, kLine, Nanos(0));
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
  DcqcnMlx point(settings, kLine, Nanos(0));
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
    DcqcnMlx point(settings, kLine, Nanos(0));
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
  DcqcnMlx point(settings, kLine, Nanos(0));
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
  EXPECT_EQ(Rate(DcqcnMlx(settings, kLine, Nanos(0))), 80'000u);
  settings.rpg_min_dec_fac = 0;
  settings.rpg_gd = 10;
  settings.rpg_min_rate = 500;
  DcqcnMlx point(settings, kLine, Nanos(0));
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
  DcqcnMlx point(settings, kLine, Nanos(0));
  EXPECT_TRUE(point.is_back());
  point.OnCnp(settings, Micros(1));
  EXPECT_FALSE(point.is_back());
  point.Advance(settings, Micros(4));
  EXPECT_LT(Rate(point), 60'000u);
}

}  // namespace
}  // namespace uroce::congestion
