// SPDX-License-Identifier: Apache-2.0
// The settings of congestion control as JSON; that of queue pairs is an object dump.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace uroce::nic {

class Nic;

/// {"settings": [...]}: profile and parameters of each device.
nlohmann::ordered_json CongestionSettingsJson(const Nic& nic);

}  // namespace uroce::nic
