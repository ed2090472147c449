// SPDX-License-Identifier: Apache-2.0
// How bytes move: in pieces of random sizes and in a random order, as a copy of a device promises
// nothing of the order within.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/gpu/driver/memory.h"

namespace uroce::test_gpu {

/// Moves `from` to `to`, which have as many bytes. A copy of eight aligned bytes becomes visible at
/// once; of other copies, parts do in an order that `seed` chooses.
void MoveBytes(const std::vector<Part>& to, const std::vector<Part>& from, uint64_t seed);
/// The same by one memcpy for each two parts.
void MovePlainly(const std::vector<Part>& to, const std::vector<Part>& from);
void FillBytes(const std::vector<Part>& to, uint8_t value);

}  // namespace uroce::test_gpu
