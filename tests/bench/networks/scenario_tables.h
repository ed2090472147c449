// SPDX-License-Identifier: Apache-2.0
// Tables of mixed traffic, of attacks, and of the networks and parameters of publications.
#pragma once

#include <vector>

#include "tests/bench/networks/candidate.h"

namespace uroce::networks {

/// One unresponsive flow beside others, bursts beside long flows, victims of PFC, peers without a
/// notification point.
void MixedTable(const std::vector<Candidate>& candidates);
/// CE on all packets, and floods of forged CNPs.
void AttackTable(const std::vector<Candidate>& candidates);
/// Parameters and networks of the DCQCN paper and of the public HPCC simulator. `candidates` run in
/// the paper's network too.
void PublishedTable(const std::vector<Candidate>& candidates);

}  // namespace uroce::networks
