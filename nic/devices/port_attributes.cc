// SPDX-License-Identifier: Apache-2.0
#include "nic/devices/port_attributes.h"

#include <infiniband/verbs.h>

#include <algorithm>

namespace uroce::nic {
namespace {

// 40 GRH + 8 UDP + 12 BTH + 4 XRCETH + 28 AtomicETH + 4 ICRC.
constexpr uint32_t kHeaderReserve = 96;
constexpr uint32_t kPhysicalDisabled = 3;
constexpr uint32_t kPhysicalLinkUp = 5;

struct SpeedRow {
  uint64_t up_to_gbps;
  LinkSpeed link;
};
constexpr uint32_t k1x = 1, k2x = 16, k4x = 2, k8x = 4;
constexpr uint32_t kSdr = 1, kDdr = 2, kFdr10 = 8, kEdr = 32, kHdr = 64, kNdr = 128;
constexpr SpeedRow kSpeeds[] = {
    {1, {k1x, kSdr}},   {10, {k1x, kFdr10}}, {20, {k4x, kDdr}},
    {25, {k1x, kEdr}},  {40, {k4x, kFdr10}}, {50, {k2x, kEdr}},
    {100, {k4x, kEdr}}, {200, {k4x, kHdr}},  {400, {k4x, kNdr}},
};

struct StaticRate {
  ibv_rate code;
  uint64_t mbps;
};
constexpr StaticRate kStaticRates[] = {
    {IBV_RATE_2_5_GBPS, 2'500},   {IBV_RATE_5_GBPS, 5'000},        {IBV_RATE_10_GBPS, 10'000},
    {IBV_RATE_14_GBPS, 14'062},   {IBV_RATE_20_GBPS, 20'000},      {IBV_RATE_25_GBPS, 25'781},
    {IBV_RATE_28_GBPS, 28'125},   {IBV_RATE_30_GBPS, 30'000},      {IBV_RATE_40_GBPS, 40'000},
    {IBV_RATE_50_GBPS, 53'125},   {IBV_RATE_56_GBPS, 56'250},      {IBV_RATE_60_GBPS, 60'000},
    {IBV_RATE_80_GBPS, 80'000},   {IBV_RATE_100_GBPS, 103'125},    {IBV_RATE_112_GBPS, 112'500},
    {IBV_RATE_120_GBPS, 120'000}, {IBV_RATE_168_GBPS, 168'750},    {IBV_RATE_200_GBPS, 206'250},
    {IBV_RATE_300_GBPS, 309'375}, {IBV_RATE_400_GBPS, 425'000},    {IBV_RATE_600_GBPS, 637'500},
    {IBV_RATE_800_GBPS, 850'000}, {IBV_RATE_1200_GBPS, 1'275'000},
};

}  // namespace

uint32_t ActiveMtu(uint32_t mtu_bytes) {
  for (uint32_t mtu = IBV_MTU_4096; mtu >= IBV_MTU_256; --mtu) {
    if (MtuBytes(mtu) + kHeaderReserve <= mtu_bytes) return mtu;
  }
  return 0;
}

uint32_t MtuBytes(uint32_t mtu) {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

uint64_t StaticRateBps(uint8_t rate) {
  const auto* const found = std::ranges::find(kStaticRates, rate, &StaticRate::code);
  return found == std::end(kStaticRates) ? 0 : found->mbps * 1'000'000;
}

LinkSpeed LinkSpeedOf(uint64_t speed_bps) {
  for (const SpeedRow& row : kSpeeds) {
    if (speed_bps <= row.up_to_gbps * 1'000'000'000) return row.link;
  }
  return {k8x, kNdr};
}

uroce_port_info PortAttributes(const drivers::PortInfo& info) {
  const LinkSpeed link = LinkSpeedOf(info.speed_bps);
  uroce_port_info port{};
  port.state = info.link_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  port.phys_state = info.link_up ? kPhysicalLinkUp : kPhysicalDisabled;
  port.max_mtu = IBV_MTU_4096;
  port.active_mtu = ActiveMtu(info.mtu_bytes);
  port.active_width = link.width;
  port.active_speed = link.speed;
  port.gid_table_length = UROCE_MAX_GIDS;
  return port;
}

}  // namespace uroce::nic
