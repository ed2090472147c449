// SPDX-License-Identifier: Apache-2.0
// Parses settings of emulated switches, and changes of them while the daemon runs. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/settings/congestion_settings.h"
#include "pipeline/fabric/fabric_config.h"

namespace uroce::nic {

/// Thresholds of PFC as configured.
struct PfcSettings {
  enum class Mode : uint8_t { kOff, kOn, kGiven };
  Mode mode = Mode::kOff;
  uint32_t xoff_bytes = 0;  ///< For kGiven.
  uint32_t xon_bytes = 0;
};

/// A link to another switch.
struct TrunkSettings {
  std::string to;
  fabric::LinkConfig link;
};

/// One switch: its own keys, and values that are derived once all switches are known.
struct SwitchSettings {
  std::string name;
  uint32_t ports = 4;  ///< Each port has a NIC.
  fabric::LinkConfig link{.rate_bps = 10'000'000'000, .delay = Nanos(1'000)};
  uint32_t mtu_bytes = 9000;
  std::string addresses;  ///< Of the first NIC, or "".
  bool selective_repeat = true;
  bool always_icrc = false;             ///< Of the NICs.
  CongestionConfig congestion;          ///< Of the NICs.
  std::vector<std::string> neighbours;  ///< Names of switches, one for each link to them.
  std::optional<uint64_t> trunk_rate_bps;
  std::optional<Nanos> trunk_delay;
  PfcSettings pfc;
  fabric::SwitchConfig config{.buffer_bytes = 1'000'000};

  fabric::LinkConfig trunk() const;
};

/// Sets the value of a key. Errors: one line that names the key, the value and what would be
/// right.
absl::Status SetSwitchField(const std::string& key, const std::string& value,
                            SwitchSettings& settings);
/// The keys of a switch.
const std::vector<std::string>& SwitchKeys();

/// Sets the thresholds of all switches, and checks the names of neighbours. Errors: as above; also
/// `pfc=on` with a buffer that cannot hold what arrives after a pause.
absl::Status FinishSwitches(std::vector<SwitchSettings>& switches);

/// The values that `uroce switch set` may change.
struct SwitchChange {
  std::optional<uint64_t> rate_bps;
  std::optional<Nanos> delay;
  std::optional<bool> is_up;  ///< Ports only.
  std::optional<uint64_t> buffer_bytes;
  std::optional<fabric::EcnConfig> ecn;
  std::optional<PfcSettings> pfc;
};
/// Parses "rate=1G,ecn=off". Errors: as above.
absl::StatusOr<SwitchChange> ParseSwitchChange(const std::string& text);

/// The bytes that may wait in a NIC for a link of this rate.
uint32_t HostQueueBytes(uint64_t rate_bps);

/// The thresholds for `pfc` in a switch with this number of ports, whose links are like `link`.
/// Errors: the buffer is too small.
absl::StatusOr<fabric::PfcConfig> PfcOf(const PfcSettings& pfc, uint64_t buffer_bytes,
                                        uint32_t ports, const fabric::LinkConfig& link,
                                        uint32_t mtu_bytes);

}  // namespace uroce::nic
