// SPDX-License-Identifier: Apache-2.0
// A fat tree of three tiers, in the shape of the public HPCC simulator's
// (alibaba-edu/High-Precision-Congestion-Control: simulation/mix/fat.txt).
#pragma once

#include <cstdint>

#include "tests/networks/network_bed.h"

namespace uroce::networks {

/// Racks of 16 NICs below a switch (ToR), with 4 links up to the 4 aggregation switches of their
/// pod; each of these has 4 links up, to 4 of 16 core switches. Links between switches have four
/// times the rate of a NIC's: no tier is oversubscribed. All links are 1 us long.
struct FatTree {
  uint32_t pods = 2;
  uint32_t racks_of_pod = 4;
  uint32_t nics_of_rack = 16;
  uint64_t rate_bps = 25'000'000'000;  ///< Of a NIC.
  bool pfc = true;

  static constexpr Nanos kDelay{1'000};
  static constexpr uint32_t kUplinks = 4;

  uint32_t nics() const { return pods * racks_of_pod * nics_of_rack; }
  /// The switches and links. The marking thresholds are those of that simulator: 100 to 400 KB and
  /// 20 % at 25 Gb/s, in proportion to the rate; switches above the ToRs have four times these, the
  /// ToRs have one set for all their ports. Without PFC a switch has 8 MB. That simulator's PFC
  /// pauses a link at an eighth (between switches: half) of what is free of 8 MB; here it is 1 MB
  /// at ToRs and 3 MB above, and the buffer holds that of all ports.
  NetworkConfig Config(const congestion::Settings& settings) const;
  /// How many links a packet passes from one NIC to another: 2, 4 or 6.
  uint32_t LinksBetween(uint32_t from, uint32_t to) const;
  /// From post to completion of a message on the idle network, with workers that take no time: the
  /// line's time for its packets at the NIC, the last one's at the other links, the
  /// acknowledgement's, and the links' delays.
  Nanos IdleTime(uint32_t from, uint32_t to, uint32_t bytes, uint32_t mtu_bytes) const;
};

}  // namespace uroce::networks
