// SPDX-License-Identifier: Apache-2.0
// Congestion control of one NIC as its settings say it. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nic/settings/config.h"
#include "pipeline/congestion/settings.h"

namespace uroce::nic {

/// "cc" is the profile, and "cc.NAME" a parameter of it, whichever comes first.
inline constexpr absl::string_view kCongestionKey = "cc";
bool IsCongestionKey(absl::string_view key);

/// Range: IsCongestionKey(key). Errors: one line that names the value and what would be right.
absl::Status SetCongestion(absl::string_view key, const std::string& text, DeviceConfig& device);

/// Changes of it by hand: "profile=delay,ai=300,...", all of them or none. Errors: as
/// SetCongestion.
absl::Status ChangeCongestion(const std::string& text, DeviceConfig& device);

/// What the fields say together. Without a profile: `dcqcn` on a port; `off` on an in-process wire,
/// which holds its sender back and has no queue that could grow.
congestion::Settings CongestionOf(const DeviceConfig& device);

}  // namespace uroce::nic
