// SPDX-License-Identifier: Apache-2.0
// Numbers and frames that the daemon has given out and must get back.
#pragma once

#include <vector>

#include "nic/metrics/snapshot.h"

namespace uroce::nic {

class Nic;

/// The numbers of queue pairs and keys that are in use, and the frames that are on their way or
/// kept by the workers. Each worker keeps up to a burst of frames.
std::vector<NamedCount> HeldCounts(const Nic& nic);

}  // namespace uroce::nic
