// SPDX-License-Identifier: Apache-2.0
// Flows of different kinds that meet: one that reacts to nothing, bursts of messages, and flows to
// another place behind a link that PFC pauses.
#pragma once

#include "tests/networks/scenarios.h"

namespace uroce::networks {

/// All flows go to NIC 0, whose link is the bottleneck.
struct Unresponsive {
  uint32_t senders = 4;  ///< That react.
  /// Of an unreliable connection of one more NIC, which has no congestion control.
  double rate_bps = 10e9;
  Nanos warm{20'000'000};
  Nanos measured{20'000'000};
};
struct UnresponsiveShares {
  Shares responsive;      ///< Jain's index of the senders; use and losses of the bottleneck.
  double responsive_use;  ///< Their payload, as a part of the line.
};
UnresponsiveShares RunUnresponsive(Kind kind, const congestion::Settings& settings,
                                   const Unresponsive& load);

/// Every `period` each of `bursters` NICs posts `messages` at once, while `senders` NICs write
/// without end. All go to NIC 0.
struct Bursts {
  uint32_t senders = 4;
  uint32_t bursters = 8;
  uint32_t messages = 8;
  uint32_t bytes = 4096;
  Nanos period{1'000'000};
  Nanos warm{20'000'000};
  Nanos measured{20'000'000};
};
struct BurstResult {
  Latencies messages;
  Shares others;  ///< Of the flows without end.
};
BurstResult RunBursts(Kind kind, const congestion::Settings& settings, const Bursts& load);

/// Two switches and a link of four times the rate of a NIC's between them. `senders` NICs of the
/// first one write to one NIC of the second; the victim is a flow to another one, on the same link.
struct VictimShares {
  Shares incast;
  double victim = 0;    ///< Its payload, as a part of a NIC's line.
  uint64_t pauses = 0;  ///< Of the link between the switches.
};
/// `star`: its switch and link are those of the network.
VictimShares RunVictim(const NetworkConfig& star, uint32_t senders, Nanos warm = Nanos(20'000'000),
                       Nanos measured = Nanos(20'000'000));

}  // namespace uroce::networks
