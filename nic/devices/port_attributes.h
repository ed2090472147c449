// SPDX-License-Identifier: Apache-2.0
// What ibv_query_port says of an Ethernet port. Pure.
#pragma once

#include <cstdint>

#include "drivers/port.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// Largest path MTU, as enum ibv_mtu, whose packets fit `mtu_bytes` with 96 bytes of headers; 0 if
/// none does (docs/protocol/wire-format.md, section 1.2).
uint32_t ActiveMtu(uint32_t mtu_bytes);
/// Bytes of enum ibv_mtu 1..5, else 0.
uint32_t MtuBytes(uint32_t mtu);

/// Lanes and speed per lane as verbs count them.
struct LinkSpeed {
  uint32_t width = 1;
  uint32_t speed = 1;
  friend bool operator==(const LinkSpeed&, const LinkSpeed&) = default;
};
/// docs/protocol/verbs-semantics.md, section 2: Linux's mapping up to 40 Gb/s, mlx5's above.
LinkSpeed LinkSpeedOf(uint64_t speed_bps);

uroce_port_info PortAttributes(const drivers::PortInfo& info);

}  // namespace uroce::nic
