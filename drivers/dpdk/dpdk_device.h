// SPDX-License-Identifier: Apache-2.0
// Checks, opens and closes Ethernet devices of DPDK; finds their file descriptors; sets and reads
// their link pause. Control thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "drivers/dpdk/device_arguments.h"
#include "pipeline/port/port.h"

struct rte_mempool;

namespace uroce::drivers {

/// Checks that what the device needs exists (interface, socket, file, PCI device), with the right
/// to use it, before DPDK is called, which gives its reasons only in a log. Removes a socket that
/// no program listens on any more. Errors are one line that names the device, the key, the value
/// and what would be right.
absl::Status CheckDevice(const DeviceArguments& arguments, const PortOptions& options);

/// The largest Ethernet payload that the driver's frames hold, whatever device is behind the
/// driver; 0: no limit.
uint32_t MtuLimit(const DeviceArguments& arguments);

/// A started device.
struct StartedDevice {
  uint16_t port_id = 0;
  uint16_t queues = 1;
  bool has_interrupts = false;    ///< rte_eth_dev_rx_intr_enable works on all queues.
  std::vector<int> fds;           ///< The driver's own fds; each is readable while frames wait.
  bool checks_ip_header = false;  ///< The device marks frames whose IPv4 header checksum is wrong.
};

/// Probes, configures and starts the device, with the receive and transmit queues of `options` and
/// frames in single mbufs of `pool`. When receive interrupts do not start, the device runs without
/// them. Call it after InitEal and CheckDevice. Errors are one line that names the device and
/// option.
absl::StatusOr<StartedDevice> OpenDevice(const DeviceArguments& arguments,
                                         const PortOptions& options, rte_mempool* pool);

/// Stops and removes the device, so that the same name can be opened again. No worker is inside.
void CloseDevice(const StartedDevice& device);

// ---- file descriptors of a device, on which a sleeping worker waits ----
// DPDK has no function for them.

/// All fds of this process, in rising order, of the kind that such a driver opens: AF_PACKET or
/// AF_XDP sockets, queues of a TAP. They are readable exactly when frames wait, even where the
/// driver offers no interrupt. Empty for the other kinds. Control thread; the function reads /proc.
std::vector<int> FdsOf(WakeUp kind);

/// The fds of that kind that were opened since `before` was taken.
std::vector<int> FdsSince(WakeUp kind, const std::vector<int>& before);

// ---- link pause: its mode, and the pause frames that a device counts ----

/// The mode of a started device; no value: its driver does not tell.
std::optional<FlowControl> ReadFlowControl(uint16_t port_id);

/// Sets the mode of a started device; thresholds stay as the driver has them. Errors: one line that
/// names the device: its driver has no flow control, or not this mode.
absl::Status WriteFlowControl(const DeviceArguments& arguments, uint16_t port_id,
                              FlowControl flow_control);

/// Whether an extended statistic of a driver counts pause frames, and in which direction. Drivers
/// use their own names, such as "rx_flow_control_xoff_packets" and "tx_pause_frames". Frames that
/// end a pause (XON), and durations, are left out.
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
