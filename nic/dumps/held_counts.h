// SPDX-License-Identifier: Apache-2.0
// Numbers and frames that the daemon has given out and must get back, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace uroce::nic {

class Nic;

/// The numbers of queue pairs and keys that are in use, and the frames that are on their way or
/// kept by the workers. Each worker keeps up to a burst of frames.
nlohmann::ordered_json HeldJson(const Nic& nic);

}  // namespace uroce::nic
