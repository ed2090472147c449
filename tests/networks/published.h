// SPDX-License-Identifier: Apache-2.0
// Networks and parameters of publications on DCQCN (docs/protocol/congestion.md, sections 5 and 6).
#pragma once

#include "tests/networks/scenarios.h"

namespace uroce::networks {

/// A star of 40 Gb/s as in the DCQCN paper (SIGCOMM 2015), 4 us there and back, PFC: a link pauses
/// when 500 KB of it wait. Marks by the deployed set: 5 KB, 200 KB, 1 %.
NetworkConfig PaperStar(uint32_t nics, const congestion::Settings& settings);
/// The same with PFC alone: switches do not mark.
NetworkConfig PaperStarWithoutMarks(uint32_t nics, const congestion::Settings& settings);
/// The paper's first attempt: a cut-off at 40 KB, and in the settings a timer of 1.5 ms, a byte
/// counter of 150 KB and g = 1/16.
NetworkConfig PaperFirstStar(uint32_t nics);
congestion::Settings PaperFirstSettings();
/// `dcqcn` with the deployed parameters and the authors' simulator's floor of 100 Mb/s.
congestion::Settings PaperSettings();

/// A star of the public HPCC simulator (simulation/run.py), 25 or 100 Gb/s, links of 1 us, PFC:
/// marks from 100 to 400 KB and 20 % at 25 Gb/s, in proportion to the rate. Its DCQCN is NVIDIA's
/// form with a timer of 300 us, cuts every 4 us and steps of 5 and 50 Mb/s at 25 Gb/s, in
/// proportion too.
NetworkConfig HpccStar(uint32_t nics, uint32_t gigabits, const congestion::Settings& settings);
congestion::Settings HpccSettings(uint32_t gigabits);

}  // namespace uroce::networks
