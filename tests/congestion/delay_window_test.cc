// SPDX-License-Identifier: Apache-2.0
// How many packets round trips allow (pipeline/congestion/window.h).
#include "pipeline/congestion/window.h"

#include <gtest/gtest.h>

#include "pipeline/congestion/settings.h"

namespace uroce::congestion {
namespace {

using wire::Psn;

constexpr uint32_t kMost = 256;

struct DelayWindowTest : testing::Test {
  DelayWindowTest() { window.Start(settings, kMost, 1024); }
  /// A round trip of so long, with the window in use or not.
  void Round(uint32_t micros, bool full = true, Nanos stalls = Nanos(0), uint32_t merged = 0) {
    window.OnSent(psn, true, full, now, stalled);
    now = now + Micros(micros);
    stalled = stalled + stalls;
    psn = psn + (1 + merged);
    window.OnAcknowledged(settings, psn, now, stalled);
  }
  void Rounds(int count, uint32_t micros) {
    for (int i = 0; i < count; ++i) Round(micros);
  }
  DelaySettings settings{.initial_cwnd = 16};
  DelayWindow window;
  Psn psn{0xfffff0};  // Wraps soon.
  Nanos now{1'000'000};
  Nanos stalled{5'000};
};

// [cc.delay.start] It begins with initial_cwnd and doubles in each round trip that fills it.
TEST_F(DelayWindowTest, DoublesAtFirst) {
  EXPECT_EQ(window.packets(), 16u);
  Round(20, false);
  EXPECT_EQ(window.packets(), 16u) << "not in use";
  Round(20);
  EXPECT_EQ(window.packets(), 32u);
  Rounds(10, 20);
  EXPECT_EQ(window.packets(), kMost);
}

// [cc.delay.start] The initial window is in bytes.
TEST_F(DelayWindowTest, TheInitialWindowIsInBytes) {
  window.Start(settings, kMost, 4096);
  EXPECT_EQ(window.packets(), 4u);
}

// [cc.delay.increase] Once a round trip was above the target the window grows by one packet a round
// trip, and faster after five below it.
TEST_F(DelayWindowTest, GrowsByOnePacket) {
  settings.ai = 1'000;
  Round(20);
  Round(1'000);
  EXPECT_EQ(window.packets(), 32u);
  for (uint32_t i = 1; i <= 4; ++i) {
    Round(20);
    EXPECT_EQ(window.packets(), 32 + i);
  }
  Round(20);
  EXPECT_EQ(window.packets(), 36 + 36 / 4);
}

// [cc.delay.decrease] From the second round trip above the target on the window shrinks in each, by
// how far the delay is above, and by half at most.
TEST_F(DelayWindowTest, ShrinksByTheExcess) {
  Rounds(3, 20);
  EXPECT_EQ(window.packets(), 128u);
  const auto target = static_cast<double>(window.Target(settings).count());
  Round(150);
  EXPECT_EQ(window.packets(), 128u);
  Round(150);
  const double factor = 1 - 0.8 * (150'000 - target) / 150'000;
  EXPECT_NEAR(static_cast<double>(window.milli_packets()) / 1000, 128 * factor, 0.01);
  const uint64_t before = window.milli_packets();
  Rounds(1, 5'000);
  Rounds(1, 5'000);
  EXPECT_NEAR(static_cast<double>(window.milli_packets()), static_cast<double>(before) / 3,
              6'000.0);
}

// [cc.delay.noise] One long round trip among short ones changes nothing but the doubling.
TEST_F(DelayWindowTest, OneLongRoundTripIsNoCongestion) {
  Rounds(3, 20);
  for (int i = 0; i < 100; ++i) {
    Round(3'000);
    Round(20, false);
  }
  EXPECT_EQ(window.packets(), 128u);
}

// [cc.delay.noise] The time in which this thread did not run does not count.
TEST_F(DelayWindowTest, OwnStallsAreLeftOut) {
  Rounds(3, 20);
  for (int i = 0; i < 10; ++i) Round(3'020, false, Micros(3'000));
  EXPECT_EQ(window.packets(), 128u);
  EXPECT_EQ(window.delay(), Micros(20));
}

// [cc.delay.noise] What a sample leaves out may be too much, so the base delay leaves out nothing.
TEST_F(DelayWindowTest, TheBaseIsThatOfWholeRoundTrips) {
  for (int i = 0; i < 3; ++i) Round(20'000, true, Micros(19'990));
  EXPECT_EQ(window.delay(), Micros(10));
  EXPECT_EQ(window.base(), Micros(20'000));
}

// [cc.delay.merged] An acknowledgement that was put off until many later packets had come says
// nothing, unless it came in time all the same.
TEST_F(DelayWindowTest, MergedAcknowledgementsSayNothing) {
  Rounds(3, 20);
  for (int i = 0; i < 10; ++i) Round(500, true, Nanos(0), 33);
  EXPECT_EQ(window.packets(), 128u);
  for (int i = 0; i < 10; ++i) Round(500, true, Nanos(0), 32);
  EXPECT_LT(window.packets(), 8u);
}

// [cc.delay.lost] What was under way when something was lost is not measured.
TEST_F(DelayWindowTest, ALossEndsTheSample) {
  Rounds(3, 20);
  for (int i = 0; i < 10; ++i) {
    window.OnSent(psn, true, true, now, stalled);
    now = now + Micros(5'000);
    window.GiveUpSample();
    psn = psn + 1;
    window.OnAcknowledged(settings, psn, now, stalled);
  }
  EXPECT_EQ(window.packets(), 128u);
  window.OnLoss(settings);
  EXPECT_EQ(window.packets(), 64u);
}

// [cc.delay.one] One sample at a time: what is sent meanwhile does not move its begin.
TEST_F(DelayWindowTest, OneSampleAtATime) {
  window.OnSent(psn, true, true, now, stalled);
  window.OnSent(psn + 1, true, true, now + Micros(50), stalled);
  window.OnAcknowledged(settings, psn, now + Micros(55), stalled);
  EXPECT_EQ(window.delay(), Nanos(0)) << "what came before is acknowledged";
  window.OnAcknowledged(settings, psn + 2, now + Micros(60), stalled);
  EXPECT_EQ(window.delay(), Micros(60));
}

// [cc.delay.small] Long round trips alone leave one packet, which waits for no gap once its answer
// is there: the other end may be slow.
TEST_F(DelayWindowTest, WithoutALossOnePacketIsLeft) {
  Round(20);
  for (int i = 0; i < 50; ++i) Round(1'000);
  EXPECT_EQ(window.milli_packets(), 1'000u);
  EXPECT_EQ(window.gap(), window.Target(settings));
}

// [cc.delay.small] Windows below one packet, once there was a loss: a gap between packets.
TEST_F(DelayWindowTest, BelowOnePacket) {
  Round(20);
  window.OnLoss(settings);
  for (int i = 0; i < 50; ++i) Round(1'000);
  EXPECT_EQ(window.packets(), 1u);
  EXPECT_EQ(window.milli_packets(), 46u) << "min_cwnd, in parts of 256";
  EXPECT_EQ(window.gap(), Nanos(1'000'000 * 256 / 12));
  Rounds(2, 20);
  EXPECT_EQ(window.packets(), 2u) << "and back above one";
  EXPECT_GT(window.gap(), Nanos(0)) << "whole packets are too coarse";
  Rounds(20, 20);
  EXPECT_EQ(window.gap(), Nanos(0));
  for (int i = 0; i < 50; ++i) Round(1'000);
  EXPECT_EQ(window.packets(), 1u);
  EXPECT_EQ(window.milli_packets(), 1'000u) << "the loss is forgotten";
}

// [cc.delay.small] A host that was away for seconds goes on when it is back.
TEST_F(DelayWindowTest, ALongPauseStopsNoFlow) {
  Round(20);
  window.OnLoss(settings);
  for (int i = 0; i < 8; ++i) Round(1'000'000);
  EXPECT_LT(window.milli_packets(), 1'000u);
  EXPECT_EQ(window.gap(), DelayWindow::kMostGap);
}

// [cc.delay.look] Who has never seen the path but through its own queue finds out.
TEST_F(DelayWindowTest, LooksAtThePath) {
  const auto queue_and_path = [&] { return window.packets() * 40; };
  Rounds(1, 800);
  for (int i = 0; i < 200; ++i) Round(std::max(queue_and_path(), 20u));
  EXPECT_LT(window.base(), Micros(100));
  EXPECT_LT(window.packets(), 8u);
}

// [cc.delay.look] A long path is looked at ever more rarely, and its window is used meanwhile.
TEST_F(DelayWindowTest, ALongPathIsUsed) {
  uint64_t packets = 0;
  for (int i = 0; i < 2'000; ++i) {
    Round(20'000);
    packets += window.packets();
  }
  EXPECT_GE(packets, 2'000ull * kMost * 98 / 100);
}

// [cc.delay.target] The target: of the fabric, of a long path, and of small windows.
TEST_F(DelayWindowTest, TheTarget) {
  Round(20);
  EXPECT_EQ(window.packets(), 32u);
  EXPECT_LT(window.Target(settings), Micros(110));
  EXPECT_GE(window.Target(settings), Micros(100));
  DelayWindow far;
  far.Start(settings, kMost, 1024);
  far.OnSent(psn, true, true, now, stalled);
  far.OnAcknowledged(settings, psn + 1, now + Micros(20'000), stalled);
  EXPECT_GE(far.Target(settings), Micros(25'000));
  EXPECT_EQ(far.packets(), 32u) << "a long path alone is no congestion";
  window.OnLoss(settings);
  for (int i = 0; i < 200; ++i) Round(10'000);
  EXPECT_EQ(window.Target(settings), Micros(200)) << "fs_range more";
}

// [cc.delay.base] The shortest round trip is forgotten after ten to twenty seconds.
TEST_F(DelayWindowTest, ThePathMayBecomeLonger) {
  Round(20);
  EXPECT_EQ(window.base(), Micros(20));
  for (int i = 0; i < 25; ++i) Round(1'000'000);
  EXPECT_EQ(window.base(), Micros(1'000'000));
}

// [cc.delay.asks] Some packets of each window ask for an acknowledgement.
TEST_F(DelayWindowTest, AsksForSome) {
  uint32_t asked = 0;
  for (uint32_t i = 0; i < 16; ++i) {
    const bool asks = window.WantsAck();
    asked += asks;
    window.OnSent(psn + i, asks, false, now, stalled);
  }
  EXPECT_EQ(asked, 4u);
}

}  // namespace
}  // namespace uroce::congestion
