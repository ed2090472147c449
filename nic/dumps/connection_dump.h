// SPDX-License-Identifier: Apache-2.0
// The state and counters of the connection manager, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace uroce::nic {

class RdmaCmHost;

/// Messages received and sent by kind, and the reasons why messages had no effect.
nlohmann::ordered_json ManagerJson(const RdmaCmHost& host);

}  // namespace uroce::nic
