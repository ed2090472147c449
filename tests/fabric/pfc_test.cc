// SPDX-License-Identifier: Apache-2.0
// Priority flow control: thresholds, what still arrives, and when the sender goes on.
#include <gtest/gtest.h>

#include "tests/fabric/fabric_bed.h"

namespace uroce::fabric {
namespace {

constexpr LinkConfig kGigabit{.rate_bps = 1'000'000'000, .delay = Nanos(1'000)};
constexpr LinkConfig kSlow{.rate_bps = 100'000'000, .delay = Nanos(1'000)};  // 80 us a frame.
constexpr PfcConfig kFiveAndTwo{
    .on = true, .xoff_bytes = 5 * kFrameBytes, .xon_bytes = 2 * kFrameBytes};

class PfcTest : public FabricBed {
 public:
  void Make(const PfcConfig& pfc) {
    MakeStar(3, {.buffer_bytes = 1 << 20, .pfc = pfc}, kGigabit);
    fabric().SetLink(fabric().CableOf(1), kSlow);
  }
  void SendMany(uint32_t host, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) Send(host, {.number = i}, Nanos(0));
  }
};

// Frame k reaches the switch at 9 + 8 k us; the first leaves at once. With the seventh, at 57 us,
// six wait. The pause takes 672 ns of line and 1 us; frame 7 is on the line then.
TEST_F(PfcTest, PauseIsSentAboveTheThresholdAndHoldsTheNextFrameBack) {
  Make(kFiveAndTwo);
  SendMany(0, 20);
  fabric().Advance(Nanos(56'999));
  EXPECT_FALSE(LinkFrom(0).is_pausing);
  fabric().Advance(Nanos(58'671));
  EXPECT_TRUE(LinkFrom(0).is_pausing);
  EXPECT_FALSE(LinkFrom(0).is_paused);
  fabric().Advance(Nanos(58'672));
  EXPECT_TRUE(LinkFrom(0).is_paused);
  fabric().Advance(Nanos(88'000));
  EXPECT_EQ(LinkFrom(0).counters.frames, 8u);
  EXPECT_EQ(fabric().switch_at(0).buffered_bytes, 7 * kFrameBytes);
}

// One frame leaves every 80 us from 89 us on: two wait at 409 us.
TEST_F(PfcTest, SenderGoesOnAtTheLowerThreshold) {
  Make(kFiveAndTwo);
  SendMany(0, 20);
  fabric().Advance(Nanos(410'671));
  EXPECT_TRUE(LinkFrom(0).is_paused);
  fabric().Advance(Nanos(410'672));
  EXPECT_FALSE(LinkFrom(0).is_paused);
  EXPECT_EQ(LinkFrom(0).counters.paused, Nanos(352'000));
  EXPECT_EQ(LinkFrom(0).counters.pauses, 1u);
  EXPECT_EQ(LinkFrom(0).counters.frames, 9u);  // The ninth began at once.
}

TEST_F(PfcTest, NothingIsLostAndTheReceiversLineIsAlwaysInUse) {
  Make(kFiveAndTwo);
  SendMany(0, 60);
  SendMany(2, 60);
  Finish();
  EXPECT_EQ(deliveries().size(), 120u);
  EXPECT_EQ(freed(), 0u);
  EXPECT_EQ(deliveries().back().arrival, Nanos(9'000 + 120 * 80'000 + 1'000));
  EXPECT_LE(fabric().switch_at(0).peak_buffered_bytes, 2 * 8 * kFrameBytes);
}

TEST_F(PfcTest, OnlyTheSenderWhoseShareIsLargeIsPaused) {
  Make(kFiveAndTwo);
  SendMany(0, 20);
  Send(2, {.number = 99}, Nanos(100'000));
  fabric().Advance(Nanos(300'000));
  EXPECT_TRUE(LinkFrom(0).is_paused);
  EXPECT_FALSE(LinkFrom(2).is_paused);
  EXPECT_EQ(LinkFrom(2).counters.pauses, 0u);
}

TEST_F(PfcTest, ControlPassesAPausedLink) {
  Make(kFiveAndTwo);
  SendMany(0, 20);
  fabric().Advance(Nanos(200'000));
  Send(0, {.destination = MacOf(2), .number = 77, .traffic_class = 48 << 2}, Nanos(200'000));
  fabric().Advance(Nanos(218'000));
  EXPECT_EQ(NumbersAt(2), (std::vector<uint32_t>{77}));
}

TEST_F(PfcTest, WithoutItTheBufferDrops) {
  MakeStar(3, {.buffer_bytes = 7 * kFrameBytes}, kGigabit);
  fabric().SetLink(fabric().CableOf(1), kSlow);
  SendMany(0, 20);
  Finish();
  EXPECT_EQ(LinkFrom(0).counters.pauses, 0u);
  EXPECT_GT(PortOf(1).counters.tail_drops, 0u);
}

TEST_F(PfcTest, PausesReachBackOverASecondSwitch) {
  Make(kFiveAndTwo);
  FabricBed::Make();
  for (int i = 0; i < 2; ++i) fabric().AddSwitch({.buffer_bytes = 1 << 20, .pfc = kFiveAndTwo});
  fabric().AddHost(0, MacOf(0), kGigabit);
  fabric().AddHost(1, MacOf(1), kSlow);
  const uint32_t trunk = fabric().Join(0, 1, kGigabit);
  SendMany(0, 60);
  Finish();
  EXPECT_EQ(deliveries().size(), 60u);
  EXPECT_GT(fabric().link(2 * trunk).counters.pauses, 0u);
  EXPECT_GT(LinkFrom(0).counters.pauses, 0u);
  EXPECT_LE(fabric().switch_at(0).peak_buffered_bytes, 9 * kFrameBytes);
}

// More pauses and resumptions are wanted than may be on the way at a time.
TEST_F(PfcTest, SenderFarAwayGoesOnInTheEnd) {
  const PfcConfig narrow{.on = true, .xoff_bytes = 2 * kFrameBytes, .xon_bytes = 2 * kFrameBytes};
  MakeStar(3, {.buffer_bytes = 1 << 20, .pfc = narrow},
           {.rate_bps = 1'000'000'000, .delay = Nanos(1'000'000)});
  for (uint32_t i = 0; i < 400; ++i) {
    Send(0, {.number = i}, Nanos(20'000 * i));
    Send(2, {.number = i}, Nanos(20'000 * i));
    if (i % 8 == 0) SendMany(0, 3);
  }
  Finish();
  EXPECT_EQ(deliveries().size(), 400u * 2 + 50 * 3);
  EXPECT_EQ(freed(), 0u);
  EXPECT_FALSE(LinkFrom(0).is_paused);
}

// Four are on the way, so a fifth is told when the first has arrived, and no frame has moved.
TEST_F(PfcTest, WhatFoundNoRoomOnTheWayIsToldLater) {
  const SwitchConfig on{.buffer_bytes = 1 << 20,
                        .pfc = {.on = true, .xoff_bytes = 2 * kFrameBytes, .xon_bytes = 0}};
  const SwitchConfig off{.buffer_bytes = 1 << 20};
  MakeStar(3, on, {.rate_bps = 1'000'000'000, .delay = Nanos(1'000'000)});
  fabric().SetLink(fabric().CableOf(1), {.rate_bps = 1'000'000, .delay = Nanos(1'000)});
  SendMany(0, 6);
  for (int change = 0; change < 4; ++change) {
    const Nanos now(1'200'000 + 50'000 * change);
    fabric().Advance(now);
    EXPECT_EQ(LinkFrom(0).is_pausing, change % 2 == 0);
    fabric().SetSwitch(0, change % 2 == 0 ? off : on, now);
  }
  EXPECT_FALSE(LinkFrom(0).is_pausing);
  fabric().Advance(Nanos(3'500'000));
  EXPECT_TRUE(LinkFrom(0).is_paused);
  Finish();
  EXPECT_EQ(deliveries().size(), 6u);
}

TEST_F(PfcTest, SwitchedOffItResumesWhoIsPaused) {
  Make(kFiveAndTwo);
  SendMany(0, 20);
  fabric().Advance(Nanos(100'000));
  ASSERT_TRUE(LinkFrom(0).is_paused);
  fabric().SetSwitch(0, {.buffer_bytes = 1 << 20}, Nanos(100'000));
  fabric().Advance(Nanos(101'672));
  EXPECT_FALSE(LinkFrom(0).is_paused);
  Finish();
  EXPECT_EQ(deliveries().size(), 20u);
}

TEST_F(PfcTest, LinkThatComesBackIsNotPaused) {
  Make(kFiveAndTwo);
  SendMany(0, 20);
  fabric().Advance(Nanos(100'000));
  ASSERT_TRUE(LinkFrom(0).is_paused);
  fabric().SetUp(fabric().CableOf(0), false, Nanos(100'000));
  fabric().SetUp(fabric().CableOf(0), true, Nanos(100'000));
  Send(0, {.number = 55}, Nanos(2'000'000));
  Finish();
  EXPECT_EQ(NumbersAt(1).back(), 55u);
}

}  // namespace
}  // namespace uroce::fabric
