// SPDX-License-Identifier: Apache-2.0
// The congestion control of one NIC: as a user gives it, and what that means for each priority.
// Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "pipeline/congestion/settings.h"

namespace uroce::nic {

struct DeviceConfig;

/// Congestion control of a NIC as a user gives it: only what differs from the defaults.
struct CongestionConfig {
  /// Without a value the kind of port decides (CongestionOf).
  std::optional<congestion::Profile> profile;
  /// Of single priorities; the others have `profile`.
  std::array<std::optional<congestion::Profile>, congestion::kPriorities> of_priority;
  /// Parameters with their values, each once.
  std::vector<std::pair<const congestion::Parameter*, uint32_t>> parameters;
};

/// "cc" is the profile, "cc.3" that of priority 3, and "cc.NAME" a parameter of all; their order
/// does not matter. Where all keys are of congestion control, as in `uroce cc set`, "cc." may be
/// left out, and "profile" is another name of "cc".
inline constexpr absl::string_view kCongestionKey = "cc";
bool IsCongestionKey(absl::string_view key);

/// Range: IsCongestionKey(key). Errors: one line that names the value and what would be right.
absl::Status SetCongestion(absl::string_view key, const std::string& text,
                           CongestionConfig& config);

/// Applies changes such as "profile=delay,ai=300", with or without "cc.", all of them or none.
/// Errors: those of SplitFields, CheckKeysDiffer and SetCongestion.
absl::Status ChangeCongestion(const std::string& text, CongestionConfig& config);

/// The keys and values that make `config`, in their own order.
std::vector<std::pair<std::string, std::string>> CongestionFields(const CongestionConfig& config);

/// Combines the settings of the device for packets of a priority without its own profile. If the
/// device has none either: `delay` on a port; `off` on an in-process wire, which applies
/// backpressure to its sender and has no queue that could grow.
congestion::Settings CongestionOf(const DeviceConfig& device);
/// The settings of each priority.
std::array<congestion::Settings, congestion::kPriorities> CongestionOfPriorities(
    const DeviceConfig& device);
/// Whether packets of this traffic class allow switches to mark them (ECN-capable transport).
bool IsEcnCapable(const DeviceConfig& device, uint8_t traffic_class);

}  // namespace uroce::nic
