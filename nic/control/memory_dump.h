// SPDX-License-Identifier: Apache-2.0
// Registered memory as JSON: how the daemon reaches each part, and why not better.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace uroce::nic {

class Session;

/// All regions of these sessions' programs.
nlohmann::ordered_json MemoryRegionsJson(const std::vector<const Session*>& sessions);

/// What a code of enum uroce_mr_reason says; "" for none.
const char* ReasonText(uint32_t reason);

}  // namespace uroce::nic
