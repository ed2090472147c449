// SPDX-License-Identifier: Apache-2.0
// Link pause of DPDK devices: its mode, and the pause frames that a device counts. Control thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "drivers/dpdk/device_arguments.h"
#include "drivers/port.h"

namespace uroce::drivers {

/// The mode of a started device; no value: its driver does not tell.
std::optional<FlowControl> ReadFlowControl(uint16_t port_id);

/// Sets the mode of a started device; thresholds stay as the driver has them. Errors: one line that
/// names the device: its driver has no flow control, or not this mode.
absl::Status WriteFlowControl(const DeviceArguments& arguments, uint16_t port_id,
                              FlowControl flow_control);

/// The command that has the kernel set the mode of its own `interface`.
std::string EthtoolCommand(const std::string& interface, FlowControl flow_control);

/// Whether an extended statistic of a driver counts pause frames, and in which direction. Drivers
/// use names of their own, such as "rx_flow_control_xoff_packets" and "tx_pause_frames". Frames
/// that end a pause (XON), and durations, are left out.
enum class PauseStatistic : uint8_t { kNone, kReceived, kSent };
PauseStatistic PauseStatisticOf(absl::string_view name);

/// Pause frames of one device since it was opened.
class PauseCounts {
 public:
  /// Finds the statistics of the started device `port_id`.
  void Watch(uint16_t port_id);
  /// Adds what the device counted to `counters`.
  void AddTo(PortCounters& counters) const;

 private:
  static void Add(uint16_t port_id, const std::vector<uint64_t>& ids, std::optional<uint64_t>& sum);

  uint16_t port_id_ = 0;
  std::vector<uint64_t> received_;  ///< Numbers of statistics.
  std::vector<uint64_t> sent_;
};

}  // namespace uroce::drivers
