// SPDX-License-Identifier: Apache-2.0
// Parses the fields of one port, its network among them, and checks a port that is added while the
// daemon runs. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nic/settings/config.h"

namespace uroce::nic {

// ---- the network of one NIC: addresses, routes, exception interface ----

/// Each parses the text of one field, whose parts are joined by '+', and adds it to `device`.
/// Errors: one line that names the part and what would be right.
absl::Status AddAddresses(const std::string& text, DeviceConfig& device);
absl::Status AddGateways(const std::string& text, DeviceConfig& device);
absl::Status AddRoutes(const std::string& text, DeviceConfig& device);
/// The host that answers for the port's addresses on a kernel interface: "kernel" or "uroce".
absl::Status SetHost(const std::string& text, DeviceConfig& device);
/// Sets the name of an interface, which must be valid for the kernel.
absl::Status SetException(const std::string& text, DeviceConfig& device);

/// Checks that the fields are consistent: gateways are on link of an address and not the port
/// itself, no two routes have the same prefix, and a port on a kernel interface has no routes.
absl::Status CheckNetwork(const DeviceConfig& device);

// ---- the fields of one port, but for its name and its congestion control ----

inline constexpr absl::string_view kSelectiveRepeatKey = "selective-repeat";
inline constexpr absl::string_view kRateKey = "rate";
inline constexpr absl::string_view kFaultKey = "fault";
inline constexpr absl::string_view kIcrcKey = "icrc";

inline constexpr uint32_t kMinMtuBytes = 352;  ///< Path MTU 256 and its headers.
inline constexpr uint32_t kMaxMtuBytes = 9600;

/// A field, and its parser. Errors: one line that says what would be right, without the origin.
struct PortField {
  absl::string_view key;
  absl::Status (*set)(const std::string& text, DeviceConfig& device);
};
std::span<const PortField> PortFields();

/// Gives the port the faults of `text` and no others; "off": none. ';' may stand for ','. The one
/// reader of `--fault`, of the field fault and of `uroce fault set`. Errors: as ParseFault.
absl::Status SetFault(const std::string& text, DeviceConfig& device);
/// Those that the NICs of wires have too.
absl::Status SetRate(const std::string& text, DeviceConfig& device);
absl::Status SetSelectiveRepeat(const std::string& text, DeviceConfig& device);
/// `text` is "always" or "needed". Of NICs on wires and switches.
absl::Status SetIcrc(const std::string& text, bool& always);

// ---- ports and wires that are changed, added and removed while the daemon runs ----

/// Applies the fields that may change, such as "rate=5G,cc=delay", all of them or none. Errors: one
/// line that begins with the name of the port.
absl::Status ChangePort(const std::string& text, DeviceConfig& device);

/// A port or a wire to add: what was written, and the NICs that it means.
struct PortAddition {
  Setting setting;
  std::vector<DeviceConfig> nics;
};

/// Reads what --port takes, or with the key "wire" what --wire takes, and checks it beside the NICs
/// of `present` as at the start. Errors: one line that names the key; Unimplemented: such a port is
/// only made when the daemon starts.
absl::StatusOr<PortAddition> ParsePortAddition(const std::string& key, const std::string& text,
                                               const Config& present);

/// Checks that such a NIC may be removed while the daemon runs. Errors: FailedPrecondition, one
/// line that says why it stays.
absl::Status CheckRemovable(const DeviceConfig& device);

}  // namespace uroce::nic
