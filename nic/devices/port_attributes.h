// SPDX-License-Identifier: Apache-2.0
// The attributes of an Ethernet port for ibv_query_port. Pure.
#pragma once

#include <cstdint>

#include "drivers/port.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

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

uroce_port_info PortAttributes(const drivers::PortInfo& info);

}  // namespace uroce::nic
