// SPDX-License-Identifier: Apache-2.0
// Adds and removes ports while programs use others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/settings/config.h"

namespace uroce::nic {

class Monitor;
class Nic;
class NicDevice;
struct Services;

/// Opens a port, or both ends of a wire, as at the start. `indices` are those of the devices.
/// Errors: one line that names the device.
using PortOpener = std::function<absl::StatusOr<std::vector<std::unique_ptr<NicDevice>>>(
    const std::vector<DeviceConfig>&, const std::vector<uint32_t>& indices)>;

/// Control thread.
class PortChanges {
 public:
  /// What follows devices beside the services.
  struct Hooks {
    std::function<void(NicDevice&)> added;    ///< It is there, and served.
    std::function<void(NicDevice&)> removed;  ///< It is still there, and about to go.
  };

  PortChanges(Nic& nic, Services& services, Monitor& monitor, Hooks hooks)
      : nic_(nic), services_(services), monitor_(monitor), hooks_(std::move(hooks)) {}

  void SetOpener(PortOpener opener) { opener_ = std::move(opener); }
  /// `text` is as of --port, or with the key "wire" as of --wire. Errors: one line that names the
  /// key; nothing was changed then.
  absl::Status Add(const std::string& key, const std::string& text);
  /// Programs that have it open get IBV_EVENT_DEVICE_FATAL, and their works are flushed. Errors:
  /// FailedPrecondition: it stays as long as the daemon.
  absl::Status Remove(NicDevice& device);

 private:
  void Plug(NicDevice& device);
  void Serve(std::unique_ptr<NicDevice> opened);

  Nic& nic_;
  Services& services_;
  Monitor& monitor_;
  const Hooks hooks_;
  PortOpener opener_;
};

}  // namespace uroce::nic
