// SPDX-License-Identifier: Apache-2.0
// What a READ may bring back.
#pragma once

#include <cstdint>
#include <span>

#include "tests/sim/workload.h"

namespace uroce::sim {

/// Whether `bytes` may be the result of the READ `index` of `plan`. It sees all earlier works, and
/// no part of one behind the next fence; of those between, each byte is from before or from after:
/// memory is read when the answer leaves, or leaves again.
/// Source: docs/protocol/congestion.md, section 10.4.
bool MayRead(const Workload& plan, uint32_t index, std::span<const uint8_t> bytes);

}  // namespace uroce::sim
