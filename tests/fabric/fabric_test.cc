// SPDX-License-Identifier: Apache-2.0
// Time on a line, queues, RED and full buffers, with exact numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <utility>

#include "pipeline/fabric/fabric.h"
#include "tests/fabric/fabric_bed.h"

namespace uroce::fabric {
namespace {

TEST(EventQueueTest, OfOneTimeTheLowestComesFirst) {
  EventQueue queue;
  queue.Resize(4);
  for (const uint32_t event : {2u, 0u, 3u, 1u}) queue.Set(event, Nanos(5));
  for (uint32_t event = 0; event < 4; ++event) {
    EXPECT_EQ(queue.first(), event);
    queue.Remove(event);
  }
  EXPECT_EQ(queue.next(), kNever);
}

// Against a set of pairs, which is ordered alike.
TEST(EventQueueTest, AgreesWithASet) {
  constexpr uint32_t kEvents = 40;
  std::mt19937_64 random(1);
  EventQueue queue;
  queue.Resize(kEvents);
  std::set<std::pair<int64_t, uint32_t>> set;
  const auto forget = [&](uint32_t event) {
    std::erase_if(set, [&](const auto& each) { return each.second == event; });
  };
  for (int step = 0; step < 20'000; ++step) {
    const auto event = static_cast<uint32_t>(random() % kEvents);
    const auto time = static_cast<int64_t>(random() % 64);
    switch (random() % 3) {
      case 0:
        if (queue.empty()) break;
        ASSERT_EQ(queue.first(), set.begin()->second) << step;
        queue.Remove(queue.first());
        set.erase(set.begin());
        break;
      case 1:
        queue.Remove(event);
        forget(event);
        break;
      default:
        queue.Set(event, Nanos(time));
        forget(event);
        set.emplace(time, event);
    }
    ASSERT_EQ(queue.next().count(), set.empty() ? kNever.count() : set.begin()->first) << step;
  }
}

// Near events are in a ring and far ones in a heap; time goes round the ring many times.
TEST(EventQueueTest, NearAndFarEventsComeInOrder) {
  constexpr uint32_t kEvents = 300;
  std::mt19937_64 random(2);
  EventQueue queue;
  queue.Resize(kEvents);
  std::set<std::pair<int64_t, uint32_t>> set;
  const auto give = [&](uint32_t event, int64_t now) {
    constexpr std::array<uint64_t, 4> kSpans = {1, 40, 3'000, 20'000};
    const auto time = now + static_cast<int64_t>(random() % kSpans[random() % kSpans.size()]);
    std::erase_if(set, [&](const auto& each) { return each.second == event; });
    set.emplace(time, event);
    queue.Set(event, Nanos(time));
  };
  for (uint32_t event = 0; event < kEvents; ++event) give(event, 0);
  for (int step = 0; step < 50'000; ++step) {
    const auto [time, event] = *set.begin();
    ASSERT_EQ(queue.next(), Nanos(time)) << step;
    ASSERT_EQ(queue.first(), event) << step;
    give(event, time);
    if (random() % 4 == 0) give(static_cast<uint32_t>(random() % kEvents), time);
  }
}

constexpr LinkConfig kGigabit{.rate_bps = 1'000'000'000, .delay = Nanos(1'000)};
constexpr uint8_t kEct0 = 2;
constexpr uint8_t kCe = 3;

class FabricTest : public FabricBed {
 public:
  /// Hosts 0 and 2 send `each` frames to host 1 at time 0. They reach the switch in pairs, the
  /// first at 9 us, then every 8 us. At each of these times one leaves, as soon as the first of a
  /// pair is in the queue. So where nothing is dropped, both of pair k, counted from 0, find k
  /// frames.
  void SendPairs(uint32_t each, uint8_t traffic_class = 0) {
    for (uint32_t i = 0; i < each; ++i) {
      Send(0, {.number = 2 * i, .traffic_class = traffic_class}, Nanos(0));
      Send(2, {.number = 2 * i + 1, .traffic_class = traffic_class}, Nanos(0));
    }
  }
  SwitchConfig WithEcn(const EcnConfig& ecn) { return {.buffer_bytes = 1 << 20, .ecn = ecn}; }
};

TEST_F(FabricTest, FrameTakesEachLineForItsBitsAndIsForwardedWhole) {
  MakeStar(2, {}, kGigabit);
  Send(0, {.number = 7}, Nanos(500));
  EXPECT_EQ(fabric().NextEvent(), Nanos(9'500));
  fabric().Advance(Nanos(18'499));
  EXPECT_TRUE(deliveries().empty());
  fabric().Advance(Nanos(18'500));
  ASSERT_EQ(deliveries().size(), 1u);
  EXPECT_EQ(deliveries()[0].arrival, Nanos(18'500));
  EXPECT_EQ(deliveries()[0].number, 7u);
  EXPECT_EQ(fabric().NextEvent(), kNever);
}

TEST_F(FabricTest, ShortFramesTakeTheLineForTheShortestOfEthernet) {
  EXPECT_EQ(WireBytes(1), 84u);
  EXPECT_EQ(WireBytes(60), 84u);
  EXPECT_EQ(WireBytes(61), 85u);
}

// 84 bytes at 100 Gb/s are 6.72 ns.
TEST_F(FabricTest, RateIsExactWhereAFrameIsNoWholeNumberOfNanoseconds) {
  MakeStar(2, {.buffer_bytes = 1 << 20},
           {.rate_bps = 100'000'000'000, .host_queue_bytes = 1 << 20});
  for (uint32_t i = 0; i < 1'000; ++i) Send(0, {.number = i, .length_bytes = 60}, Nanos(0));
  Finish();
  ASSERT_EQ(deliveries().size(), 1'000u);
  // On two lines, whole nanoseconds each time.
  EXPECT_GE(deliveries().back().arrival, Nanos(6'720 + 6));
  EXPECT_LE(deliveries().back().arrival, Nanos(6'720 + 8));
}

TEST_F(FabricTest, LinkThatWasIdleStartsAtOnce) {
  MakeStar(2, {}, kGigabit);
  Send(0, {}, Nanos(0));
  Send(0, {}, Nanos(1'000'000));
  Finish();
  EXPECT_EQ(deliveries()[1].arrival, Nanos(1'018'000));
}

TEST_F(FabricTest, QueueIsWhatWaitsAndNotWhatIsOnTheLine) {
  MakeStar(3, {}, kGigabit);
  SendPairs(10);
  fabric().Advance(Nanos(9'000));
  EXPECT_EQ(PortOf(1).queue_bytes(), kFrameBytes);
  fabric().Advance(Nanos(81'000));
  EXPECT_EQ(PortOf(1).queue_bytes(), 10 * kFrameBytes);
  EXPECT_EQ(fabric().switch_at(0).buffered_bytes, 10 * kFrameBytes);
  EXPECT_EQ(PortOf(1).peak_queue_bytes, 10 * kFrameBytes);
  Finish();
  EXPECT_EQ(deliveries().size(), 20u);
  EXPECT_EQ(deliveries().back().arrival, Nanos(9'000 + 20 * 8'000 + 1'000));
  EXPECT_EQ(fabric().switch_at(0).buffered_bytes, 0u);
  EXPECT_EQ(PortOf(1).counters.frames, 20u);
  EXPECT_EQ(PortOf(1).counters.bytes, 20 * kFrameBytes);
}

// Five frames fit, which pair 5 finds: both are dropped, and one leaves. Pair 6 finds four and
// fits. Pairs 7 and 9 are as pair 5.
TEST_F(FabricTest, FrameThatFindsTheBufferFullIsDropped) {
  MakeStar(3, {.buffer_bytes = 5 * kFrameBytes}, kGigabit);
  SendPairs(10);
  Finish();
  EXPECT_EQ(deliveries().size(), 14u);
  EXPECT_EQ(freed(), 6u);
  EXPECT_EQ(PortOf(1).counters.tail_drops, 6u);
  EXPECT_EQ(PortOf(1).counters.early_drops, 0u);
  EXPECT_EQ(fabric().switch_at(0).peak_buffered_bytes, 5 * kFrameBytes);
}

TEST_F(FabricTest, BufferIsSharedByThePorts) {
  MakeStar(4, {.buffer_bytes = 4 * kFrameBytes}, kGigabit);
  fabric().SetLink(fabric().CableOf(1), {.rate_bps = 1'000'000, .delay = Nanos(0)});
  for (uint32_t i = 0; i < 8; ++i) Send(0, {.number = i}, Nanos(0));
  fabric().Advance(Nanos(100'000));  // One on the slow line, four in the buffer.
  EXPECT_EQ(PortOf(1).counters.tail_drops, 3u);
  Send(2, {.destination = MacOf(3)}, Nanos(100'000));
  fabric().Advance(Nanos(200'000));
  EXPECT_EQ(PortOf(3).counters.tail_drops, 1u);
  Finish();
  EXPECT_EQ(deliveries().size(), 5u);
}

// docs/protocol/congestion.md, section 5.
TEST_F(FabricTest, MarksRiseLinearlyBetweenTheThresholds) {
  const EcnConfig paper{
      .on = true, .min_bytes = 5'000, .max_bytes = 200'000, .max_probability = 0.01};
  EXPECT_EQ(MarkProbability(paper, 5'000), 0);
  EXPECT_NEAR(MarkProbability(paper, 5'001), 0.01 / 195'000, 1e-12);
  EXPECT_DOUBLE_EQ(MarkProbability(paper, 102'500), 0.005);
  EXPECT_DOUBLE_EQ(MarkProbability(paper, 200'000), 0.01);
  EXPECT_EQ(MarkProbability(paper, 200'001), 1);
  EXPECT_EQ(MarkProbability({.on = false, .min_bytes = 0, .max_bytes = 1}, 100), 0);
}

// Four frames are not more than the threshold; pairs 5 to 9 find more.
TEST_F(FabricTest, CutOffMarksAllThatFindMore) {
  const uint32_t threshold = 4 * kFrameBytes;
  MakeStar(3, WithEcn({.on = true, .min_bytes = threshold, .max_bytes = threshold}), kGigabit);
  SendPairs(10, kEct0);
  Finish();
  EXPECT_EQ(PortOf(1).counters.marks, 10u);
  EXPECT_EQ(std::ranges::count(deliveries(), kCe, &Delivery::traffic_class), 10);
  EXPECT_EQ(deliveries().size(), 20u);
}

TEST_F(FabricTest, WhatIsNotEcnCapableIsDroppedWhereOthersAreMarked) {
  const uint32_t threshold = 4 * kFrameBytes;
  MakeStar(3, WithEcn({.on = true, .min_bytes = threshold, .max_bytes = threshold}), kGigabit);
  SendPairs(10);
  Finish();
  EXPECT_EQ(PortOf(1).counters.marks, 0u);
  // Pairs 5, 7 and 9 find five frames; pairs 6 and 8 find four, since one has left.
  EXPECT_EQ(PortOf(1).counters.early_drops, 6u);
  EXPECT_EQ(deliveries().size(), 14u);
}

TEST_F(FabricTest, SwitchWithPfcDropsNothingEarly) {
  const uint32_t threshold = 4 * kFrameBytes;
  SwitchConfig config = WithEcn({.on = true, .min_bytes = threshold, .max_bytes = threshold});
  config.pfc = {.on = true, .xoff_bytes = 1 << 19, .xon_bytes = 1 << 19};
  MakeStar(3, config, kGigabit);
  SendPairs(10);
  Finish();
  EXPECT_EQ(PortOf(1).counters.early_drops, 0u);
  EXPECT_EQ(deliveries().size(), 20u);
}

// Some 9 MB wait, and thresholds of 0 and 90 MB mark one frame in ten.
TEST_F(FabricTest, MarksFollowTheProbabilityAndTheSeed) {
  std::vector<uint64_t> marks;
  for (const uint64_t seed : {1, 1, 2}) {
    Make({.max_frames = 8'192, .seed = seed});
    fabric().AddSwitch({.buffer_bytes = 1 << 30});
    for (uint32_t host = 0; host < 2; ++host) fabric().AddHost(0, MacOf(host), kGigabit);
    fabric().SetLink(fabric().CableOf(1), {.rate_bps = 1'000'000, .delay = Nanos(0)});
    for (uint32_t i = 0; i < 1'000; ++i) Send(0, {.length_bytes = 9'000}, Nanos(0));
    fabric().Advance(Nanos(80'000'000));
    SwitchConfig config = WithEcn({.on = true, .min_bytes = 0, .max_bytes = 90'000'000});
    config.buffer_bytes = 1 << 30;
    fabric().SetSwitch(0, config, Nanos(80'000'000));
    for (uint32_t i = 0; i < 4'000; ++i) {
      Send(0, {.traffic_class = kEct0, .length_bytes = 60}, Nanos(80'000'000));
    }
    fabric().Advance(Nanos(90'000'000));
    marks.push_back(PortOf(1).counters.marks);
  }
  EXPECT_EQ(marks[0], marks[1]);
  EXPECT_NE(marks[0], marks[2]);
  for (const uint64_t each : marks) {
    EXPECT_GT(each, 340u);
    EXPECT_LT(each, 460u);
  }
}

// docs/protocol/congestion.md, section 2: DSCP 48 is priority 6.
TEST_F(FabricTest, ControlGoesFirstAndIsNotMarked) {
  MakeStar(3, WithEcn({.on = true, .min_bytes = 0, .max_bytes = 0}), kGigabit);
  SendPairs(5, kEct0);
  fabric().Advance(Nanos(40'000));
  Send(2, {.number = 99, .traffic_class = 48 << 2 | kEct0}, Nanos(40'000));
  Finish();
  const std::vector<uint32_t> numbers = NumbersAt(1);
  ASSERT_EQ(numbers.size(), 11u);
  // It reaches the switch at 49 us, when the line is free again and five frames wait.
  EXPECT_EQ(numbers[5], 99u);
  EXPECT_EQ(deliveries()[5].traffic_class, 48 << 2 | kEct0);
}

TEST_F(FabricTest, HostIsHeldBackByItsOwnLink) {
  LinkConfig link = kGigabit;
  link.host_queue_bytes = 2 * kFrameBytes;
  MakeStar(2, {}, link);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_GT(fabric().SendRoom(0), 0u);
    Send(0, {.number = i}, Nanos(0));
  }
  EXPECT_EQ(fabric().SendRoom(0), 0u);  // One on the line, two wait.
  fabric().Advance(Nanos(7'999));
  EXPECT_EQ(fabric().SendRoom(0), 0u);
  fabric().Advance(Nanos(8'000));
  EXPECT_GT(fabric().SendRoom(0), 0u);
}

TEST_F(FabricTest, RoomIsThatForFullPackets) {
  LinkConfig link = kGigabit;
  link.host_queue_bytes = 10'000;
  MakeStar(2, {}, link);
  EXPECT_EQ(fabric().SendRoom(0), 3u);
  for (uint32_t i = 0; i < 7; ++i) Send(0, {.number = i}, Nanos(0));  // One is on the line.
  EXPECT_EQ(fabric().SendRoom(0), 1u);
}

TEST_F(FabricTest, FabricThatIsFullHoldsBackAndDropsWhatIsSentAllTheSame) {
  Make({.max_frames = 2});
  fabric().AddSwitch({});
  for (uint32_t host = 0; host < 2; ++host) fabric().AddHost(0, MacOf(host), kGigabit);
  Send(0, {.number = 1}, Nanos(0));
  Send(0, {.number = 2}, Nanos(0));
  EXPECT_EQ(fabric().SendRoom(1), 0u);
  Send(1, {.destination = MacOf(0), .number = 3}, Nanos(0));
  EXPECT_EQ(fabric().lost_slots(), 1u);
  Finish();
  EXPECT_EQ(deliveries().size(), 2u);
  EXPECT_EQ(fabric().SendRoom(1), 2u);  // Less than the queue has room for.
}

TEST_F(FabricTest, LinkMayBecomeSlowerAndShorterInFlightWithoutReordering) {
  MakeStar(2, {}, kGigabit);
  fabric().SetLink(fabric().CableOf(1), {.rate_bps = 1'000'000'000, .delay = Nanos(1'000'000)});
  Send(0, {.number = 1}, Nanos(0));
  fabric().Advance(Nanos(20'000));
  fabric().SetLink(fabric().CableOf(1), kGigabit);
  Send(0, {.number = 2}, Nanos(20'000));
  Finish();
  EXPECT_EQ(NumbersAt(1), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(deliveries()[0].arrival, Nanos(1'017'000));
  EXPECT_EQ(deliveries()[1].arrival, Nanos(1'017'000));
}

TEST_F(FabricTest, FramesInItAreFreedWithIt) {
  MakeStar(3, {}, kGigabit);
  SendPairs(5);
  fabric().Advance(Nanos(30'000));
  TearDown();
  EXPECT_EQ(deliveries().size() + freed(), 10u);
}

}  // namespace
}  // namespace uroce::fabric
