// SPDX-License-Identifier: Apache-2.0
// The activity of each worker, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace uroce::nic {

class Nic;

/// One object per worker: its queue pairs, the packets of all devices that it received and sent,
/// those that it handed over, took over or dropped, and the time that it was busy.
nlohmann::ordered_json WorkersJson(const Nic& nic);

}  // namespace uroce::nic
