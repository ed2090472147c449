// SPDX-License-Identifier: Apache-2.0
// The settings that hold, as JSON in the form of uroced.toml.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace uroce::nic {

class Nic;

/// Top-level settings, "fault", "limits", then "port", "wire" and "switch" with their fields. What
/// commands have changed of a NIC is in it: on a wire or at a switch as keys "NAME.KEY".
nlohmann::ordered_json ConfigJson(const Nic& nic);

}  // namespace uroce::nic
