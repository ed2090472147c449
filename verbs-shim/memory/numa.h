// SPDX-License-Identifier: Apache-2.0
// The NUMA policy of memory (mbind(2)), which goes with the contents from one mapping to another.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/maps.h"

namespace uroce::memory {

/// Gives `to` the policy that the mapping at `from` has. Makes raw system calls only and writes
/// nothing but the stack. Nothing happens where both have none, or where the kernel has no
/// policies.
void CopyPolicy(uint64_t from, AddressRange to);

/// The same for the first `length` bytes of a memfd, which have no mapping and no pages yet.
void CopyPolicyToFile(uint64_t from, int memfd, uint64_t length);

}  // namespace uroce::memory
