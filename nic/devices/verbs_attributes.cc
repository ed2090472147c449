// SPDX-License-Identifier: Apache-2.0
#include "nic/devices/verbs_attributes.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

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

uint64_t SpeedBps(const LinkSpeed& link) {
  constexpr uint64_t kLanes[] = {1, 4, 8, 12, 2};  // By bit of the width
  constexpr uint64_t kMbps[] = {2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000};  // SDR ...
  return kLanes[std::countr_zero(link.width)] * kMbps[std::countr_zero(link.speed)] * 1'000'000;
}

uroce_port_info PortAttributes(const drivers::PortInfo& info, uint64_t rate_bps) {
  const LinkSpeed link = LinkSpeedOf(info.speed_bps);
  uroce_port_info port{};
  port.state = info.link_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  port.phys_state = info.link_up ? kPhysicalLinkUp : kPhysicalDisabled;
  port.max_mtu = IBV_MTU_4096;
  port.active_mtu = ActiveMtu(info.mtu_bytes);
  port.active_width = link.width;
  port.active_speed = link.speed;
  port.gid_table_length = UROCE_MAX_GIDS;
  port.speed_bps = info.speed_bps != 0 ? info.speed_bps : SpeedBps(link);
  if (rate_bps != 0) port.speed_bps = std::min(port.speed_bps, rate_bps);
  return port;
}

namespace {

absl::Status CheckCap(const char* name, uint32_t value, uint32_t limit) {
  if (value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("qp: ", name, " ", value, " is above ", limit));
}

uint32_t RoundUp(uint32_t value, uint32_t grain) { return (value + grain - 1) / grain * grain; }

uint32_t ReceiveSlotBytes(uint32_t max_sge) {
  const uint32_t sges = static_cast<uint32_t>(sizeof(uroce_sge)) * max_sge;
  return std::bit_ceil(static_cast<uint32_t>(sizeof(uroce_recv_wqe)) + sges);
}

absl::Status CheckCaps(const uroce_qp_cap& wanted, const Limits& limits) {
  const struct {
    const char* name;
    uint32_t value;
    uint32_t limit;
  } rows[] = {
      {"max_send_wr", wanted.max_send_wr, MostEntries(limits.qp_wr)},
      {"max_recv_wr", wanted.max_recv_wr, MostEntries(limits.qp_wr)},
      {"max_send_sge", wanted.max_send_sge, UROCE_MAX_SGE},
      {"max_recv_sge", wanted.max_recv_sge, UROCE_MAX_SGE},
      {"max_inline_data", wanted.max_inline_data, UROCE_MAX_INLINE},
  };
  for (const auto& row : rows) {
    if (absl::Status status = CheckCap(row.name, row.value, row.limit); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

// A send slot fills whole cache lines; the room left in its last line is granted as inline data.
// Receive slots are powers of two, so that none touches more lines than necessary.
absl::StatusOr<QueuePairLayout> LayOutQueuePair(const uroce_qp_cap& wanted, const Limits& limits) {
  if (absl::Status status = CheckCaps(wanted, limits); !status.ok()) return status;
  QueuePairLayout layout;
  layout.granted = wanted;
  if (wanted.max_send_wr != 0) {
    const uint32_t sges = static_cast<uint32_t>(sizeof(uroce_sge)) * wanted.max_send_sge;
    const auto header = static_cast<uint32_t>(sizeof(uroce_send_wqe));
    layout.sq_depth = DepthFor(wanted.max_send_wr, limits.qp_wr);
    layout.sq_slot_bytes = RoundUp(header + std::max(sges, wanted.max_inline_data), UROCE_LINE);
    layout.granted.max_send_wr = layout.sq_depth;
    // Also if none is asked for: rdma_xclient uses the room of its SGE, which devices grant.
    layout.granted.max_inline_data = std::min(layout.sq_slot_bytes - header, UROCE_MAX_INLINE);
  }
  if (wanted.max_recv_wr != 0) {
    layout.rq_depth = DepthFor(wanted.max_recv_wr, limits.qp_wr);
    layout.rq_slot_bytes = ReceiveSlotBytes(wanted.max_recv_sge);
    layout.granted.max_recv_wr = layout.rq_depth;
  }
  layout.sq_offset = sizeof(uroce_qp_page);
  layout.rq_offset = layout.sq_offset + uint64_t{layout.sq_depth} * layout.sq_slot_bytes;
  layout.length_bytes = layout.rq_offset + uint64_t{layout.rq_depth} * layout.rq_slot_bytes;
  return layout;
}

absl::StatusOr<ReceiveRingLayout> LayOutReceiveRing(const char* kind, uint32_t max_wr,
                                                    uint32_t max_sge, const Limits& limits) {
  const uint32_t most = MostEntries(limits.qp_wr);
  if (max_wr == 0 || max_wr > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(kind, ": max_wr ", max_wr, " is not in 1 to ", most));
  }
  if (max_sge > UROCE_MAX_SGE) {
    return absl::InvalidArgumentError(
        absl::StrCat(kind, ": max_sge ", max_sge, " is above ", UROCE_MAX_SGE));
  }
  ReceiveRingLayout layout;
  layout.depth = DepthFor(max_wr, limits.qp_wr);
  layout.slot_bytes = ReceiveSlotBytes(max_sge);
  layout.length_bytes = uint64_t{layout.depth} * layout.slot_bytes;
  return layout;
}

absl::StatusOr<uint32_t> CompletionQueueDepth(uint32_t cqe, const Limits& limits) {
  const uint32_t most = MostEntries(limits.cqe);
  if (cqe != 0 && cqe <= most) return DepthFor(cqe, limits.cqe);
  return absl::InvalidArgumentError(absl::StrCat("cq: cqe ", cqe, " is not in 1 to ", most));
}

CompletionRingLayout LayOutCompletionRing(uint32_t depth) {
  CompletionRingLayout layout;
  layout.entries_offset = sizeof(uroce_cq_ring_page);
  layout.length_bytes = layout.entries_offset + uint64_t{depth} * sizeof(uroce_cqe);
  return layout;
}

}  // namespace uroce::nic
