// SPDX-License-Identifier: Apache-2.0
// The activity of each worker.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "nic/metrics/snapshot.h"

namespace uroce::nic {

class Nic;

/// Its queue pairs, the packets of all devices that it received and sent, those that it handed
/// over, took over or dropped, the time that it was busy, and how it shared its CPU.
std::vector<WorkerSnapshot> WorkerSnapshots(const Nic& nic);
/// One object per worker.
nlohmann::ordered_json WorkersJson(const std::vector<WorkerSnapshot>& workers);

}  // namespace uroce::nic
