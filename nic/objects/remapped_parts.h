// SPDX-License-Identifier: Apache-2.0
// Copied parts of regions refer to the program's addresses, whatever memory is there. When a later
// region maps such memory, these parts must be reached by the same mapping: an atomic that is a CPU
// instruction and one that the copy helper executes do not exclude each other. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/datapath/memory/memory_keys.h"

namespace uroce::nic {

/// The most parts of one region. Well-behaved programs need fewer; more would delay the daemon.
inline constexpr size_t kMaxRemappedParts = 1024;

/// Returns `segments` in which every part that refers to addresses, and lies in a mapped part of
/// `newer`, is mapped like it. Both are parts of a region, in rising addresses. Nothing when that
/// changes nothing, or would make more than kMaxRemappedParts.
std::vector<datapath::MrSegment> MapRemapped(const std::vector<datapath::MrSegment>& segments,
                                             const std::vector<datapath::MrSegment>& newer);

/// `segments` with the memory that refers to addresses and is mapped in `mapping` copied again.
/// Parts are split for that, as long as they become at most `room` more and no more than
/// kMaxRemappedParts; further ones are copied whole. Nothing when no part is affected.
std::vector<datapath::MrSegment> CopyRemapped(const std::vector<datapath::MrSegment>& segments,
                                              std::span<const uint8_t> mapping, uint64_t room);

}  // namespace uroce::nic
