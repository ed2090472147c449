// SPDX-License-Identifier: Apache-2.0
// The attributes of a port that programs see (docs/protocol/verbs-semantics.md, section 2).
#include "nic/devices/verbs_attributes.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

namespace uroce::nic {
namespace {

// docs/protocol/wire-format.md, section 1.2: 96 bytes are reserved for headers.
TEST(PortAttributesTest, ActiveMtuLeavesNinetySixBytes) {
  const struct {
    uint32_t mtu_bytes, active;
  } rows[] = {{9000, 5}, {4200, 5}, {4192, 5}, {4191, 4}, {2144, 4}, {2143, 3}, {1500, 3},
              {1120, 3}, {1119, 2}, {608, 2},  {607, 1},  {352, 1},  {351, 0},  {0, 0}};
  for (const auto& row : rows) EXPECT_EQ(ActiveMtu(row.mtu_bytes), row.active) << row.mtu_bytes;
}

TEST(PortAttributesTest, SpeedKeepsTheOrderOfMagnitude) {
  EXPECT_EQ(LinkSpeedOf(1'000'000'000), (LinkSpeed{1, 1}));
  EXPECT_EQ(LinkSpeedOf(10'000'000'000), (LinkSpeed{1, 8}));
  EXPECT_EQ(LinkSpeedOf(25'000'000'000), (LinkSpeed{1, 32}));
  EXPECT_EQ(LinkSpeedOf(40'000'000'000), (LinkSpeed{2, 8}));
  EXPECT_EQ(LinkSpeedOf(100'000'000'000), (LinkSpeed{2, 32}));
  EXPECT_EQ(LinkSpeedOf(400'000'000'000), (LinkSpeed{2, 128}));
}

// libibverbs, ibv_rate_to_mbps.
TEST(PortAttributesTest, StaticRatesAreThoseOfTheLibrary) {
  EXPECT_EQ(StaticRateBps(IBV_RATE_MAX), 0u);
  EXPECT_EQ(StaticRateBps(1), 0u);
  EXPECT_EQ(StaticRateBps(255), 0u);
  int known = 0;
  for (int rate = IBV_RATE_2_5_GBPS; rate < 32; ++rate) {
    const int mbps = ibv_rate_to_mbps(static_cast<ibv_rate>(rate));
    const uint64_t expected = mbps < 0 ? 0 : uint64_t(mbps) * 1'000'000;
    EXPECT_EQ(StaticRateBps(static_cast<uint8_t>(rate)), expected) << rate;
    known += mbps > 0;
  }
  EXPECT_EQ(known, 23);
}

TEST(PortAttributesTest, PortIsActiveWithLinkOnly) {
  drivers::PortInfo info;
  info.mtu_bytes = 1500;
  info.link_up = true;
  EXPECT_EQ(PortAttributes(info).state, IBV_PORT_ACTIVE);
  EXPECT_EQ(PortAttributes(info).phys_state, 5u);
  EXPECT_EQ(PortAttributes(info).active_mtu, IBV_MTU_1024);
  EXPECT_EQ(PortAttributes(info).max_mtu, IBV_MTU_4096);
  info.link_up = false;
  EXPECT_EQ(PortAttributes(info).state, IBV_PORT_DOWN);
  EXPECT_EQ(PortAttributes(info).phys_state, 3u);
}

TEST(PortAttributesTest, TheSpeedIsThatOfTheLinkOrOfItsWidthAndLanes) {
  drivers::PortInfo info;
  EXPECT_EQ(PortAttributes(info).speed_bps, SpeedBps(LinkSpeedOf(0)));
  for (const uint64_t gbps : {10, 25, 40, 50, 100, 200, 400}) {
    EXPECT_EQ(SpeedBps(LinkSpeedOf(gbps * 1'000'000'000)), gbps * 1'000'000'000) << gbps;
  }
  info.speed_bps = 5'000'000'000;
  EXPECT_EQ(PortAttributes(info).speed_bps, 5'000'000'000u);
}

TEST(PortAttributesTest, ARateLimitBoundsTheSpeed) {
  drivers::PortInfo info;
  info.speed_bps = 25'000'000'000;
  EXPECT_EQ(PortAttributes(info, 2'000'000).speed_bps, 2'000'000u);
  EXPECT_EQ(PortAttributes(info, 40'000'000'000).speed_bps, 25'000'000'000u);
}

}  // namespace
}  // namespace uroce::nic
