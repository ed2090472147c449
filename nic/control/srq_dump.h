// SPDX-License-Identifier: Apache-2.0
// Shared receive queues as JSON: whose they are, and how full.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace uroce::nic {

class Nic;
class Session;

/// All shared receive queues of these sessions' programs.
nlohmann::ordered_json SharedReceiveQueuesJson(Nic& nic,
                                               const std::vector<const Session*>& sessions);

}  // namespace uroce::nic
