// SPDX-License-Identifier: Apache-2.0
// Parses the fields of one port, but for its name and its congestion control. Pure.
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nic/settings/config.h"

namespace uroce::nic {

inline constexpr absl::string_view kSelectiveRepeatKey = "selective-repeat";
inline constexpr absl::string_view kRateKey = "rate";
inline constexpr absl::string_view kIcrcKey = "icrc";

/// A field, and its parser. Errors: one line that says what would be right, without the origin.
struct PortField {
  absl::string_view key;
  absl::Status (*set)(const std::string& text, DeviceConfig& device);
};
std::span<const PortField> PortFields();

/// Those that the NICs of wires, or faults, have too.
absl::Status SetFault(const std::string& text, DeviceConfig& device);
absl::Status SetRate(const std::string& text, DeviceConfig& device);
absl::Status SetSelectiveRepeat(const std::string& text, DeviceConfig& device);
/// `text` is "always" or "needed". Of NICs on wires and switches.
absl::Status SetIcrc(const std::string& text, bool& always);

}  // namespace uroce::nic
