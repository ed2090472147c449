// SPDX-License-Identifier: Apache-2.0
// What verbs says of a port (path MTU, speed, rates), and the sizes of queues: what a program asks
// for, what it gets, and the layout in the arena. Pure.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "absl/status/statusor.h"
#include "nic/settings/config.h"
#include "pipeline/port/port.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

// ---- of an Ethernet port, for ibv_query_port ----

/// The largest path MTU, as enum ibv_mtu, whose packets with 96 bytes of headers fit into
/// `mtu_bytes`; 0 if none does (docs/protocol/wire-format.md, section 1.2).
uint32_t ActiveMtu(uint32_t mtu_bytes);
/// The bytes of enum ibv_mtu 1..5; 0 for other values.
uint32_t MtuBytes(uint32_t mtu);

/// The bits per second of enum ibv_rate; 0 for IBV_RATE_MAX and for values that it does not have.
uint64_t StaticRateBps(uint8_t rate);

/// Link width in lanes and speed per lane, as verbs encode them.
struct LinkSpeed {
  uint32_t width = 1;
  uint32_t speed = 1;
  friend bool operator==(const LinkSpeed&, const LinkSpeed&) = default;
};
/// docs/protocol/verbs-semantics.md, section 2: Linux's mapping up to 40 Gb/s, mlx5's above that.
LinkSpeed LinkSpeedOf(uint64_t speed_bps);

/// Bits per second that a width and a speed per lane come to.
uint64_t SpeedBps(const LinkSpeed& link);

/// `rate_bps`: the rate limit of the NIC; 0 means none.
uroce_port_info PortAttributes(const drivers::PortInfo& info, uint64_t rate_bps = 0);

// ---- sizes of queues ----

/// The most entries of a queue under `limit`: depths are powers of two, so it is rounded up.
constexpr uint32_t MostEntries(uint32_t limit) { return std::bit_ceil(limit); }

/// Entries of a queue when `wanted` were asked for; all of them are granted: the next power of two
/// above. Programs rely on what Linux's software RoCE grants, which is one less than a power of
/// two: 2047 for 1024. A program that asks for the maximum gets no more than that.
constexpr uint32_t DepthFor(uint32_t wanted, uint32_t limit) {
  return std::bit_ceil(std::min(wanted + 1, MostEntries(limit)));
}

/// One queue pair in the arena: a page, then SQ slots, then RQ slots, as offsets from its start.
struct QueuePairLayout {
  uroce_qp_cap granted{};
  uint32_t sq_depth = 0;  ///< Powers of two; 0 for a queue without entries.
  uint32_t rq_depth = 0;
  uint32_t sq_slot_bytes = 0;
  uint32_t rq_slot_bytes = 0;
  uint64_t sq_offset = 0;
  uint64_t rq_offset = 0;
  uint64_t length_bytes = 0;
};
/// Errors: InvalidArgument above a limit.
absl::StatusOr<QueuePairLayout> LayOutQueuePair(const uroce_qp_cap& wanted, const Limits& limits);

/// Depth of the rings of a completion queue for `cqe` entries, see DepthFor. Errors:
/// InvalidArgument for 0 or above the limit.
absl::StatusOr<uint32_t> CompletionQueueDepth(uint32_t cqe, const Limits& limits);

/// One ring of a completion queue: its page, then its entries.
struct CompletionRingLayout {
  uint64_t entries_offset = 0;
  uint64_t length_bytes = 0;
};
CompletionRingLayout LayOutCompletionRing(uint32_t depth);

/// The slots of a receive queue without a queue pair.
struct ReceiveRingLayout {
  uint32_t depth = 0;  ///< A power of two.
  uint32_t slot_bytes = 0;
  uint64_t length_bytes = 0;
};
/// `kind` names the queue in messages. Errors: InvalidArgument when a limit is exceeded.
absl::StatusOr<ReceiveRingLayout> LayOutReceiveRing(const char* kind, uint32_t max_wr,
                                                    uint32_t max_sge, const Limits& limits);

}  // namespace uroce::nic
