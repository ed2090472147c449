// SPDX-License-Identifier: Apache-2.0
// Copied parts of regions follow the program's addresses, whatever lies there. When such memory
// becomes mapped for a later region they must be reached by the same mapping: an atomic that is a
// CPU instruction and one that the copy helper executes do not exclude each other. Pure.
#pragma once

#include <vector>

#include "pipeline/datapath/memory_region.h"

namespace uroce::nic {

/// Whether any part of `segments` that follows addresses meets `mapped`.
bool AnyFollows(const std::vector<datapath::MrSegment>& segments,
                const datapath::MrSegment& mapped);

/// `segments` with all parts that follow addresses, and lie in `mapped`, mapped as it is.
std::vector<datapath::MrSegment> MapFollowing(const std::vector<datapath::MrSegment>& segments,
                                              const datapath::MrSegment& mapped);

}  // namespace uroce::nic
