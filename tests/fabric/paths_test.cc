// SPDX-License-Identifier: Apache-2.0
// Several switches: equal paths, frames for all, links that go and come.
#include <algorithm>
#include <map>

#include "tests/fabric/fabric_bed.h"

namespace uroce::fabric {
namespace {

constexpr LinkConfig kLink{
    .rate_bps = 10'000'000'000, .delay = Nanos(500), .host_queue_bytes = 1 << 30};

/// Leaves 0 and 1 with two hosts each, 0 and 1 at the first, below `spines` spines.
class PathsTest : public FabricBed {
 public:
  void MakeLeaves(uint32_t spines, uint64_t seed = 1) {
    Make({.seed = seed});
    for (uint32_t i = 0; i < 2 + spines; ++i) fabric().AddSwitch({.buffer_bytes = 1 << 30});
    for (uint32_t host = 0; host < 4; ++host) fabric().AddHost(host / 2, MacOf(host), kLink);
    trunks_.clear();
    for (uint32_t spine = 0; spine < spines; ++spine) {
      trunks_.push_back(fabric().Join(0, 2 + spine, kLink));
      fabric().Join(1, 2 + spine, kLink);
    }
  }
  void SendFlows(uint32_t flows, uint32_t frames_of_each) {
    for (uint32_t i = 0; i < flows * frames_of_each; ++i) {
      Send(0,
           {.destination = MacOf(2),
            .number = i,
            .source_port = static_cast<uint16_t>(0xc000 + i % flows)},
           Nanos(0));
    }
  }
  /// Frames that went up to the spine.
  uint64_t UpTo(uint32_t spine) { return fabric().link(2 * trunks_[spine]).counters.frames; }
  uint32_t trunk(uint32_t spine) const { return trunks_[spine]; }

 private:
  std::vector<uint32_t> trunks_;
};

TEST_F(PathsTest, FlowsSpreadOverEqualPaths) {
  MakeLeaves(4);
  SendFlows(400, 1);
  Finish();
  EXPECT_EQ(deliveries().size(), 400u);
  for (uint32_t spine = 0; spine < 4; ++spine) {
    EXPECT_GT(UpTo(spine), 65u);
    EXPECT_LT(UpTo(spine), 135u);
  }
}

TEST_F(PathsTest, FlowKeepsItsPathAndItsOrder) {
  MakeLeaves(4);
  SendFlows(1, 100);
  Finish();
  int used = 0;
  for (uint32_t spine = 0; spine < 4; ++spine) used += UpTo(spine) != 0;
  EXPECT_EQ(used, 1);
  const std::vector<uint32_t> numbers = NumbersAt(2);
  EXPECT_EQ(numbers.size(), 100u);
  EXPECT_TRUE(std::ranges::is_sorted(numbers));
}

TEST_F(PathsTest, ManyFlowsAreEachInOrder) {
  MakeLeaves(4);
  SendFlows(16, 20);
  Finish();
  std::map<uint32_t, uint32_t> last;
  for (const uint32_t number : NumbersAt(2)) {
    const auto [found, is_first] = last.try_emplace(number % 16, number);
    EXPECT_TRUE(is_first || found->second < number);
    found->second = number;
  }
}

TEST_F(PathsTest, SeedChoosesOtherPaths) {
  std::vector<uint64_t> first;
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    MakeLeaves(4, seed);
    SendFlows(8, 1);
    Finish();
    first.push_back(UpTo(0));
  }
  EXPECT_NE(*std::ranges::max_element(first), *std::ranges::min_element(first));
}

TEST_F(PathsTest, ParallelLinksShareTheFlows) {
  Make({});
  for (int i = 0; i < 2; ++i) fabric().AddSwitch({.buffer_bytes = 1 << 30});
  for (uint32_t host = 0; host < 4; ++host) fabric().AddHost(host / 2, MacOf(host), kLink);
  const uint32_t first = fabric().Join(0, 1, kLink), second = fabric().Join(0, 1, kLink);
  SendFlows(200, 1);
  Finish();
  EXPECT_GT(fabric().link(2 * first).counters.frames, 60u);
  EXPECT_GT(fabric().link(2 * second).counters.frames, 60u);
  EXPECT_EQ(deliveries().size(), 200u);
}

TEST_F(PathsTest, HostsOfOneSwitchDoNotLeaveIt) {
  MakeLeaves(2);
  Send(0, {.destination = MacOf(1)}, Nanos(0));
  Finish();
  EXPECT_EQ(NumbersAt(1).size(), 1u);
  EXPECT_EQ(UpTo(0) + UpTo(1), 0u);
}

TEST_F(PathsTest, FramesForAllReachEachHostOnce) {
  MakeLeaves(3);
  for (const Mac& destination : {kBroadcast, Mac{1, 0, 0x5e, 0, 0, 1}, Mac{2, 9, 9, 9, 9, 9}}) {
    Send(0, {.destination = destination, .number = 5}, Nanos(0));
  }
  Finish();
  for (uint32_t host = 0; host < 4; ++host) {
    EXPECT_EQ(NumbersAt(host).size(), host == 0 ? 0u : 3u) << host;
  }
}

TEST_F(PathsTest, FrameToItsSenderIsDropped) {
  MakeLeaves(1);
  Send(0, {.destination = MacOf(0)}, Nanos(0));
  Finish();
  EXPECT_TRUE(deliveries().empty());
  EXPECT_EQ(freed(), 1u);
}

TEST_F(PathsTest, PathsAvoidALinkThatIsDown) {
  MakeLeaves(2);
  fabric().SetUp(trunk(0), false, Nanos(0));
  SendFlows(50, 1);
  Send(0, {.destination = kBroadcast, .number = 1'000}, Nanos(0));
  Finish();
  EXPECT_EQ(deliveries().size(), 50u + 3u);
  EXPECT_EQ(UpTo(0), 0u);
  fabric().SetUp(trunk(0), true, Nanos(1'000'000));
  Send(0, {.destination = MacOf(2)}, Nanos(1'000'000));
  SendFlows(50, 1);
  Finish();
  EXPECT_GT(UpTo(0), 10u);
}

TEST_F(PathsTest, WithoutAPathFramesAreDroppedAndCounted) {
  MakeLeaves(1);
  fabric().SetUp(trunk(0), false, Nanos(0));
  SendFlows(5, 1);
  Finish();
  EXPECT_TRUE(deliveries().empty());
  EXPECT_EQ(fabric().switch_at(0).lost_ways, 5u);
  EXPECT_EQ(freed(), 5u);
}

TEST_F(PathsTest, WhatIsOnALinkThatGoesDownOrWaitsForItIsLost) {
  MakeLeaves(1);
  fabric().SetLink(trunk(0), {.rate_bps = 1'000'000'000, .delay = Nanos(500)});
  SendFlows(1, 50);
  fabric().Advance(Nanos(10'000));
  ASSERT_GT(fabric().switch_at(0).buffered_bytes, 0u);
  fabric().SetUp(trunk(0), false, Nanos(10'000));
  fabric().SetUp(trunk(0), true, Nanos(10'000));
  Finish();
  const uint64_t lost = fabric().link(2 * trunk(0)).counters.down_drops;
  EXPECT_GT(lost, 0u);
  EXPECT_EQ(deliveries().size(), 50 - lost);
  EXPECT_EQ(fabric().switch_at(0).buffered_bytes, 0u);
}

TEST_F(PathsTest, AHostAtAnothersPortGetsItsOwnFramesAlone) {
  MakeStar(3, {}, {.rate_bps = 1'000'000'000, .delay = Nanos(1'000)});
  Send(0, {.destination = MacOf(1), .number = 1}, Nanos(0));
  fabric().Advance(Nanos(5'000));  // It is on its way to the switch.
  fabric().SetUp(fabric().CableOf(1), false, Nanos(5'000));
  fabric().SetHost(1, MacOf(9));
  fabric().SetUp(fabric().CableOf(1), true, Nanos(5'000));
  Send(0, {.destination = MacOf(9), .number = 2}, Nanos(5'000));
  Finish();
  EXPECT_EQ(NumbersAt(1), std::vector<uint32_t>{2});
  EXPECT_EQ(fabric().switch_at(0).lost_ways, 1u);
  // The switch does not know the former one any more.
  Send(0, {.destination = MacOf(1), .number = 3}, Nanos(1'000'000));
  Finish();
  EXPECT_EQ(NumbersAt(2), std::vector<uint32_t>{3});
}

TEST_F(PathsTest, HostWithoutALinkLosesWhatItSendsAndIsNotHeldBack) {
  MakeLeaves(1);
  fabric().SetUp(fabric().CableOf(0), false, Nanos(0));
  EXPECT_GT(fabric().SendRoom(0), 0u);
  Send(0, {.destination = MacOf(1)}, Nanos(0));
  Send(1, {.destination = MacOf(0)}, Nanos(0));
  Finish();
  EXPECT_TRUE(deliveries().empty());
  EXPECT_EQ(LinkFrom(0).counters.down_drops, 1u);
  EXPECT_EQ(PortOf(0).counters.down_drops, 1u);
}

}  // namespace
}  // namespace uroce::fabric
