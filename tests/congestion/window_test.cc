// SPDX-License-Identifier: Apache-2.0
// What the profile makes of the same events (pipeline/congestion/window.h).
#include "pipeline/congestion/window.h"

#include <gtest/gtest.h>

#include "pipeline/congestion/settings.h"

namespace uroce::congestion {
namespace {

using wire::Psn;

constexpr uint32_t kMtu = 1024;

struct WindowTest : testing::Test {
  Window Make(Profile profile) {
    environment.settings = DefaultsOf(profile);
    return Window(256, &environment);
  }
  Environment environment;
};

// [cc.loss] Where round trips are not looked at, losses alone decide, as without a profile.
TEST_F(WindowTest, LossesDecide) {
  for (const Profile profile : {Profile::kOff, Profile::kDcqcn, Profile::kDcqcnMlx}) {
    Window window = Make(profile);
    window.Start(false, kMtu);
    EXPECT_EQ(window.packets(), 256u);
    EXPECT_FALSE(window.AsksForAck(254));
    EXPECT_TRUE(window.AsksForAck(255));
    for (uint32_t i = 0; i < 100; ++i) {
      window.OnSent(Psn(i), 0, true, Micros(1'000 * i));
      window.OnAcknowledged(Psn(i + 1), 1, Micros(1'000 * i + 900));
    }
    EXPECT_EQ(window.packets(), 256u);
    window.OnGoBack();
    EXPECT_EQ(window.packets(), 128u);
    EXPECT_EQ(window.gap(), Nanos(0));
    EXPECT_EQ(window.delay(), nullptr);
  }
  Window alone(64, nullptr);
  alone.Start(false, kMtu);
  alone.OnGoBack();
  EXPECT_EQ(alone.packets(), 32u);
}

// [cc.priority] The environment of the path's priority counts from the next start on, and a
// priority that does not react has losses alone.
TEST_F(WindowTest, APriorityHasItsEnvironment) {
  Window window = Make(Profile::kDcqcn);
  window.Start(false, kMtu);
  Environment other{.settings = DefaultsOf(Profile::kDelay), .priority = 3};
  window.SetEnvironment(&other);
  EXPECT_EQ(window.delay(), nullptr) << "while it sends";
  window.Start(false, kMtu);
  EXPECT_NE(window.delay(), nullptr);
  other.settings.rp.rp_enable = 0xff & ~(1 << 3);
  window.Start(false, kMtu);
  EXPECT_EQ(window.delay(), nullptr);
}

// [cc.loss] Selective repeat begins anew when all is sent again, by losses alone.
TEST_F(WindowTest, SelectiveRepeatByLosses) {
  Window window = Make(Profile::kOff);
  window.Start(true, kMtu);
  window.OnRound(256);
  EXPECT_EQ(window.packets(), 512u);
  window.OnLost(100);
  window.OnRound(512);
  EXPECT_EQ(window.packets(), 256u);
  window.OnRound(256);
  window.OnAllResent(false);
  EXPECT_EQ(window.packets(), 272u);
  window.OnAllResent(true);
  EXPECT_EQ(window.packets(), 256u);
}

// [cc.delay.lost] By delay: a round trip in which something was lost is not measured.
TEST_F(WindowTest, LossesEndTheSample) {
  Window window = Make(Profile::kDelay);
  window.Start(true, kMtu);
  window.OnSent(Psn(0), 0, true, Micros(10));
  window.OnLost(1);
  window.OnAcknowledged(Psn(1), 1, Micros(5'010));
  EXPECT_EQ(window.delay()->delay(), Nanos(0));
  window.OnSent(Psn(1), 0, true, Micros(5'020));
  window.OnAcknowledged(Psn(2), 1, Micros(5'040));
  EXPECT_EQ(window.delay()->delay(), Micros(20));
}

// [cc.loss cc.delay.start] By delay: a loss halves the window too, many in a round as well, and a
// few do not.
TEST_F(WindowTest, LossesAndDelay) {
  Window window = Make(Profile::kDelay);
  window.Start(true, kMtu);
  EXPECT_EQ(window.packets(), 32u);
  window.OnGoBack();
  EXPECT_EQ(window.packets(), 16u);
  window.OnLost(2);
  window.OnRound(16);
  EXPECT_EQ(window.packets(), 16u);
  window.OnLost(3);
  window.OnRound(16);
  EXPECT_EQ(window.packets(), 8u);
  window.OnRound(16);
  EXPECT_EQ(window.packets(), 8u);
}

// [cc.delay.start] It reaches as far as the responder keeps packets.
TEST_F(WindowTest, ByDelayItReachesFartherWithSelectiveRepeat) {
  Window window = Make(Profile::kDelay);
  window.Start(false, kMtu);
  const auto rounds = [&](uint32_t first) {
    for (uint32_t i = 0; i < 12; ++i) {
      window.OnSent(Psn(first + i), window.packets() - 1, true, Micros(100 * i));
      window.OnAcknowledged(Psn(first + i + 1), 1, Micros(100 * i + 20));
    }
  };
  rounds(0);
  EXPECT_EQ(window.packets(), 256u);
  window.SetSelective(true);
  rounds(12);
  EXPECT_EQ(window.packets(), 2048u);
  window.SetSelective(false);
  EXPECT_EQ(window.packets(), 256u);
}

}  // namespace
}  // namespace uroce::congestion
