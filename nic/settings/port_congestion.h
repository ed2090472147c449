// SPDX-License-Identifier: Apache-2.0
// Parses the congestion control settings of one NIC. Pure.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nic/settings/config.h"
#include "nic/settings/congestion_config.h"
#include "pipeline/congestion/settings.h"

namespace uroce::nic {

/// "cc" is the profile, "cc.3" that of priority 3, and "cc.NAME" a parameter of all; their order
/// does not matter.
inline constexpr absl::string_view kCongestionKey = "cc";
bool IsCongestionKey(absl::string_view key);

/// Range: IsCongestionKey(key). Errors: one line that names the value and what would be right.
absl::Status SetCongestion(absl::string_view key, const std::string& text,
                           CongestionConfig& config);

/// Applies changes such as "profile=delay,ai=300", all of them or none. Errors: those of
/// SetCongestion.
absl::Status ChangeCongestion(const std::string& text, CongestionConfig& config);

/// The keys and values that make `config`, in an order of their own.
std::vector<std::pair<std::string, std::string>> CongestionFields(const CongestionConfig& config);

/// Combines the settings of the device for packets of a priority that has no profile of its own.
/// Without a profile: `delay` on a port; `off` on an in-process wire, which applies backpressure to
/// its sender and has no queue that could grow.
congestion::Settings CongestionOf(const DeviceConfig& device);
/// The settings of each priority.
std::array<congestion::Settings, congestion::kPriorities> CongestionOfPriorities(
    const DeviceConfig& device);

}  // namespace uroce::nic
