// SPDX-License-Identifier: Apache-2.0
// What the connection manager keeps and counts, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace uroce::nic {

class RdmaCmHost;

/// Messages received and sent by kind, and what became of those that did nothing.
nlohmann::ordered_json ManagerJson(const RdmaCmHost& host);

}  // namespace uroce::nic
