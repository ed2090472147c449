// SPDX-License-Identifier: Apache-2.0
// Copied parts of regions follow the program's addresses, whatever lies there. When such memory
// becomes mapped for a later region they must be reached by the same mapping: an atomic that is a
// CPU instruction and one that the copy helper executes do not exclude each other. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/datapath/memory/memory_region.h"

namespace uroce::nic {

/// Parts of one region, at most. Good programs make fewer; more would cost the control thread.
inline constexpr size_t kMaxRemappedParts = 1024;

/// `segments` with all parts that follow addresses, and lie in a mapped one of `newer`, mapped as
/// it is; both are parts of a region, in rising addresses. Nothing when that changes nothing, or
/// would make more than kMaxRemappedParts.
std::vector<datapath::MrSegment> MapRemapped(const std::vector<datapath::MrSegment>& segments,
                                             const std::vector<datapath::MrSegment>& newer);

/// `segments` with all that follows addresses, and is mapped in `mapping`, copied again. Parts are
/// cut for that as long as there are no more than kMaxRemappedParts. Nothing when there are none.
std::vector<datapath::MrSegment> CopyRemapped(const std::vector<datapath::MrSegment>& segments,
                                              std::span<const uint8_t> mapping);

}  // namespace uroce::nic
