// SPDX-License-Identifier: Apache-2.0
// Numbers and frames that the daemon has given out and must get back, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace uroce::nic {

class Nic;

/// Numbers of queue pairs and keys that somebody holds, and the frames that are on their way or
/// kept by the workers, which keep up to a burst each.
nlohmann::ordered_json HeldJson(const Nic& nic);

}  // namespace uroce::nic
