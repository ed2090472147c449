// SPDX-License-Identifier: Apache-2.0
// The settings port, wire and switch, each of which makes NICs, and the setting fault of a NIC.
// Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nic/settings/config.h"
#include "nic/settings/setting.h"

namespace uroce::nic {

/// Whether the key is port, wire or switch.
bool IsOfNics(absl::string_view key);
/// Adds the NICs of such a setting to `config`, and a switch. Errors: as MakeConfig; `config` may
/// have a part of them then.
absl::Status ApplyNics(const Setting& setting, Config& config);

/// The key of a port that says at which switch it is.
inline constexpr absl::string_view kSwitchKey = "switch";
/// The switch that such a setting names, or null.
const std::string* SwitchOf(const Setting& setting);

/// Gives a NIC of `config` the fault of the setting "fault". Errors: as MakeConfig.
absl::Status ApplyFault(const Setting& setting, Config& config);

/// The addresses of the first NIC at a switch; those of the others count up from it.
inline constexpr char kFirstSwitchAddresses[] = "10.0.0.1/24+fd00::1/64";

}  // namespace uroce::nic
