// SPDX-License-Identifier: Apache-2.0
// Changes the settings of the daemon while it runs: all of a change or nothing.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/control/admission.h"
#include "nic/settings/config.h"

namespace uroce::nic {

class Nic;
class NicDevice;

/// Reads the file and the flags of the daemon anew. Errors: as at the start.
using ConfigReader = std::function<absl::StatusOr<Config>()>;

/// Control thread.
class Reconfiguration {
 public:
  /// `refresh` reads a device again after a change of it, and tells who wants to know.
  Reconfiguration(Nic& nic, Admission& admission, std::function<void(NicDevice&)> refresh)
      : nic_(nic), admission_(admission), refresh_(std::move(refresh)) {}

  void SetReader(ConfigReader reader) { reader_ = std::move(reader); }
  /// Has what the file and the flags say hold, and nothing else: what other commands have changed
  /// is taken back. Errors: those of the reader, and of CheckChange. The log tells either.
  absl::Status Reload();
  /// "KEY=VALUE,..." of settings without NICs. Errors: one line that names the key.
  absl::Status Set(const std::string& text);
  /// "KEY=VALUE,..." of --port: rate, cc, cc.PRIORITY, cc.PARAMETER. Errors: as Set.
  absl::Status SetPort(NicDevice& device, const std::string& text);
  /// Whichever of them differ from those of the device.
  void SetDevice(NicDevice& device, const DeviceConfig& next);

 private:
  void TakeSettings(const Config& next, const std::vector<std::string>& keys);

  Nic& nic_;
  Admission& admission_;
  std::function<void(NicDevice&)> refresh_;
  ConfigReader reader_;
};

}  // namespace uroce::nic
