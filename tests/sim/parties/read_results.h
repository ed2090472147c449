// SPDX-License-Identifier: Apache-2.0
// Checks the result of a READ.
#pragma once

#include <cstdint>
#include <span>

#include "tests/sim/parties/workload.h"

namespace uroce::sim {

/// Whether `bytes` may be the result of the READ `index` of `plan`. The READ sees all earlier
/// works, and no effect of works after the next fence. Of the works between, each byte may be from
/// before or from after: memory is read when the response is sent, or sent again.
/// Source: docs/protocol/congestion.md, section 10.4.
bool MayRead(const Workload& plan, uint32_t index, std::span<const uint8_t> bytes);

}  // namespace uroce::sim
