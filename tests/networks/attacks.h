// SPDX-License-Identifier: Apache-2.0
// Switches that mark all packets, and NICs that send CNPs which no receiver sent.
#pragma once

#include "tests/networks/scenarios.h"

namespace uroce::networks {

enum class Attack : uint8_t {
  kNone,
  kMarks,         ///< All that arrives at the attacked flow's receiver has CE.
  kForgedCnps,    ///< CNPs with the address of the attacked flow's receiver, 4 a turn.
  kAttackerCnps,  ///< The same with the address of the attacker.
};

/// Parts of a NIC's line, by payload. The attacked flow shares its NIC with another one.
struct AttackShares {
  double attacked = 0;
  double same_nic = 0;
  double elsewhere = 0;       ///< A flow between two other NICs.
  uint64_t cnps_handled = 0;  ///< By the NIC of the attacked flow.
  uint64_t cnps_ignored = 0;
  uint64_t cnps_sent = 0;  ///< By the receiver of the attacked flow.
  uint64_t failed = 0;
};
AttackShares RunAttack(const congestion::Settings& settings, Attack attack,
                       Nanos warm = Nanos(10'000'000), Nanos measured = Nanos(20'000'000));

}  // namespace uroce::networks
