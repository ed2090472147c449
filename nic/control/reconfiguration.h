// SPDX-License-Identifier: Apache-2.0
// Changes of the configuration while the daemon runs: settings that are read again, ports that come
// and go, and commands that change the network.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/base/user_limits.h"
#include "nic/objects/client.h"
#include "nic/settings/config.h"
#include "nic/settings/switch_settings.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::drivers {
struct FaultConfig;
}

namespace uroce::nic {

class Monitor;
class Nic;
class NicDevice;
struct ControlContext;
struct Services;

/// Reads the file and the flags of the daemon once more. Errors: as at the start.
using ConfigReader = std::function<absl::StatusOr<Config>()>;

/// Changes the settings of the daemon while it runs: all of a change or nothing. Control thread.
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

/// Opens a port, or both ends of a wire, as at the start. `indices` are those of the devices.
/// Errors: one line that names the device.
using PortOpener = std::function<absl::StatusOr<std::vector<std::unique_ptr<NicDevice>>>(
    const std::vector<DeviceConfig>&, const std::vector<uint32_t>& indices)>;

/// Adds and removes ports while programs use others. Control thread.
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

/// Changes the daemon on behalf of a tool while frames pass: faults, rates and congestion control
/// of NICs, switches and their links, settings. Belongs to one client. Control thread.
class NetworkChanges {
 public:
  NetworkChanges(ControlContext& context, const Client& client)
      : context_(context), client_(client) {}

  /// Applies the whole change or nothing. Errors: PermissionDenied; NotFound: there is no such NIC,
  /// switch or port; InvalidArgument: one line that names the key and what it accepts;
  /// FailedPrecondition: a setting that only the start reads.
  absl::Status Change(const uroce_change& request);

 private:
  absl::Status SetFault(const std::string& nic_name, const std::string& text);
  void SetFaultOf(NicDevice& device, const drivers::FaultConfig& faults);
  absl::Status SetPort(const std::string& nic_name, const std::string& text);
  absl::Status RemovePort(const std::string& nic_name);
  absl::Status SetCongestion(const std::string& nic_name, const std::string& text);
  absl::Status SetSwitch(const std::string& target, const std::string& text);
  absl::Status ChangeSwitch(uint32_t index, const SwitchChange& change);
  absl::Status ChangeCable(uint32_t cable, const SwitchChange& change);

  ControlContext& context_;
  const Client& client_;
};

}  // namespace uroce::nic
