// SPDX-License-Identifier: Apache-2.0
// Changes the daemon on behalf of a tool while frames pass: faults, rates and congestion control of
// NICs, switches and their links, settings.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/objects/client.h"
#include "nic/settings/switch_settings.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::drivers {
struct FaultConfig;
}

namespace uroce::nic {

class Nic;
class NicDevice;
struct ControlContext;

/// Belongs to one client. Control thread.
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
  void SetFaultOf(NicDevice& device, const drivers::FaultConfig& faults, const std::string& text);
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
