// SPDX-License-Identifier: Apache-2.0
// The switches of the daemon and their ports, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace uroce::nic {

class Nic;

/// {"switches": [...], "ports": [...]}; empty without switches.
nlohmann::ordered_json SwitchesJson(Nic& nic);
/// The ports alone.
nlohmann::ordered_json SwitchPortsJson(Nic& nic);

}  // namespace uroce::nic
