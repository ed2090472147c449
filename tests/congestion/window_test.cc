// SPDX-License-Identifier: Apache-2.0
// What the profile makes of the same events (pipeline/congestion/flow.h).
#include <gtest/gtest.h>

#include "pipeline/congestion/flow.h"
#include "pipeline/congestion/settings.h"

namespace uroce::congestion {
namespace {

// How far losses let a requester go ahead (pipeline/congestion/flow.h).

// [sr.flight]
TEST(LossWindow, GrowsWhileItIsUsed) {
  LossWindow window(256);
  window.OnRound(128);
  EXPECT_EQ(window.packets(), 256u);
  window.OnRound(129);
  EXPECT_EQ(window.packets(), 512u);
  for (int i = 0; i < 3; ++i) window.OnRound(window.packets());
  EXPECT_EQ(window.packets(), LossWindow::kMostPackets);
}

// [sr.flight] Single losses change nothing; more than one packet in eight is too much.
TEST(LossWindow, ShrinksWhereMuchIsLostAndGrowsSlowlyFromThenOn) {
  LossWindow window(256);
  for (int i = 0; i < 2; ++i) window.OnRound(window.packets());
  window.OnLost(128);
  window.OnRound(1024);
  EXPECT_EQ(window.packets(), 2048u);
  window.OnLost(257);
  window.OnRound(2048);
  EXPECT_EQ(window.packets(), 1024u);
  window.OnRound(1024);
  EXPECT_EQ(window.packets(), 1040u);
  for (int i = 0; i < 3; ++i) {
    window.OnLost(200);
    window.OnRound(0);
  }
  EXPECT_EQ(window.packets(), 256u) << "never below that of go-back-N";
}

// [3.1.5.narrow] Go-back-N: half each time, not below eight, and slowly back to where it began.
TEST(LossWindow, GoingBackNarrowsItAndAcknowledgementsWidenIt) {
  LossWindow window(64);
  window.OnAcknowledged(1000);
  EXPECT_EQ(window.packets(), 64u);
  window.OnGoBack();
  EXPECT_EQ(window.packets(), 32u);
  for (int i = 0; i < 5; ++i) window.OnGoBack();
  EXPECT_EQ(window.packets(), 8u);
  window.OnAcknowledged(7);
  EXPECT_EQ(window.packets(), 8u);
  window.OnAcknowledged(1);
  EXPECT_EQ(window.packets(), 24u);
  for (int i = 0; i < 10; ++i) window.OnAcknowledged(64);
  EXPECT_EQ(window.packets(), 64u);
  LossWindow narrow(4);
  narrow.OnGoBack();
  EXPECT_EQ(narrow.packets(), 4u);
}

// [sr.flight] A window that begins wider stays as it is.
TEST(LossWindow, AWideOneStays) {
  LossWindow window(4096);
  window.OnRound(4096);
  EXPECT_EQ(window.packets(), 4096u);
}

// How many packets round trips allow (pipeline/congestion/flow.h).

using wire::Psn;

constexpr uint32_t kMost = 256;

struct DelayWindowTest : testing::Test {
  DelayWindowTest() { window.Start(settings, kMost, 1024, true); }
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
  window.Start(settings, kMost, 4096, true);
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

// [cc.delay.waits] A peer that does not tell its waits for a CPU keeps 16 packets in flight,
// however long its round trips are.
TEST_F(DelayWindowTest, WithAPeerThatTellsNoWaitsSixteenPacketsAreLeft) {
  window.SetPeer(kMost, false);
  Rounds(3, 20);
  EXPECT_EQ(window.packets(), 128u);
  for (int i = 0; i < 50; ++i) {
    Round(10'000);
    EXPECT_GE(window.packets(), 16u);
  }
  EXPECT_LE(window.packets(), 17u);
}

// [cc.delay.waits] One short round trip of 16 is enough: a queue makes all of them long.
TEST_F(DelayWindowTest, WithAPeerThatTellsNoWaitsOneShortRoundTripOfManyKeepsTheWindow) {
  window.SetPeer(kMost, false);
  Rounds(4, 20);
  EXPECT_EQ(window.packets(), kMost);
  for (int i = 0; i < 100; ++i) {
    Rounds(15, 10'000);
    Round(20);
  }
  EXPECT_EQ(window.packets(), kMost);
  Rounds(16, 10'000);
  EXPECT_LT(window.packets(), kMost * 6 / 10);
}

// [cc.delay.waits] What few packets take on average counts as the path's delay, until a loss.
TEST_F(DelayWindowTest, TheWaitsOfAPeerThatTellsNoneAreOfThePath) {
  window.SetPeer(kMost, false);
  Round(20);
  Rounds(64, 600);
  EXPECT_LT(window.Target(settings), Micros(200)) << "a queue makes them equally long";
  for (int i = 0; i < 64; ++i) Round(i % 16 == 8 ? 120 : 600);
  EXPECT_NEAR(static_cast<double>(window.Target(settings).count()), 712'500.0, 7'000.0);
  EXPECT_GT(window.packets(), 16u) << "these are below the target now";
  window.OnLoss(settings);
  EXPECT_LT(window.Target(settings), Micros(200));
}

// [cc.delay.waits] There a loss shrinks the window as with other peers, and below 16 packets it
// grows by `ai` in each full round trip, however long that is.
TEST_F(DelayWindowTest, WithAPeerThatTellsNoWaitsLossesAloneControlASmallWindow) {
  settings.ai = 1'000;
  window.SetPeer(kMost, false);
  Round(20);
  for (int i = 0; i < 20; ++i) window.OnLoss(settings);
  EXPECT_EQ(window.milli_packets(), 46u) << "min_cwnd, in parts of 256";
  Round(10'000, false);
  EXPECT_EQ(window.milli_packets(), 46u) << "not in use";
  for (uint32_t i = 1; i <= 16; ++i) {
    Round(10'000);
    EXPECT_EQ(window.milli_packets() / 1'000, i);
  }
}

// [cc.delay.waits] Once the peer tells its waits, round trips count again.
TEST_F(DelayWindowTest, APeerThatBeginsToTellItsWaitsIsBelieved) {
  window.Start(settings, kMost, 1024, false);
  Round(20);
  for (int i = 0; i < 50; ++i) Round(1'000);
  EXPECT_GE(window.packets(), 16u);
  window.SetPeer(kMost, true);
  for (int i = 0; i < 50; ++i) Round(1'000);
  EXPECT_EQ(window.packets(), 1u);
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
  far.Start(settings, kMost, 1024, true);
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

// [cc.loss] Selective repeat begins again when all is sent again, by losses alone.
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
