// SPDX-License-Identifier: Apache-2.0
// Device arguments as users write them: "net_af_packet0;iface=veth0", "0000:3b:00.0"; the keys of
// each driver, and the ways in which drivers differ. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pipeline/base/types.h"

namespace uroce::drivers {

/// How a sleeping worker learns that a device has frames.
enum class WakeUp : uint8_t {
  kTimer,         ///< The worker looks for frames at intervals.
  kInterrupt,     ///< The driver's receive interrupts, where the device has them.
  kPacketSocket,  ///< The driver's AF_PACKET sockets are readable.
  kXdpSocket,     ///< The driver's AF_XDP sockets are readable.
  kTapQueue,      ///< The driver's queues of the TAP are readable.
};

/// The rules of one driver. Sizes are in bytes.
struct DriverRules {
  absl::string_view driver;
  /// All keys that the driver takes. Empty: the keys are not known here, and DPDK checks them.
  std::vector<absl::string_view> keys;
  /// At least one of these keys must be given. Empty: no key is required.
  std::vector<absl::string_view> required;
  /// Keys and the values that they get when the user does not give them.
  std::vector<std::pair<absl::string_view, absl::string_view>> defaults;
  /// The key that takes the number of queues, or "".
  absl::string_view queues_key;
  /// Keys that name a kernel interface which the port sends and receives on: MAC, MTU and link are
  /// the interface's.
  std::vector<absl::string_view> interface_keys;
  /// The kernel does not see the frames that arrive there, unless this key is given.
  absl::string_view takes_interface_without;
  WakeUp wake_up = WakeUp::kTimer;
  /// Bytes for a frame in the mbufs of a pool that only this port uses, because its driver shares
  /// the memory with the kernel. 0: the port uses the pool of all ports.
  uint32_t own_pool_frame_bytes = 0;
  /// The largest Ethernet payload of its frames. 0: the limit is what a frame of the pool holds.
  uint32_t mtu_limit = 0;
  /// The device has no address: the port makes up one, which is the same at each start.
  bool made_up_mac = false;
  /// The device itself must be told the MTU.
  bool sets_mtu = false;
  /// The device starts only with as many transmit queues as receive queues.
  bool pairs_queues = false;
  /// The driver's error counter also counts frames that it only refuses for now, to be sent again.
  bool counts_refusals = false;
};

/// The rules of a driver such as "net_vhost"; "" stands for physical NICs. A driver that is not in
/// the table has no keys, no defaults, and WakeUp::kTimer.
const DriverRules& RulesOf(absl::string_view driver);

/// A parsed device argument.
struct DeviceArguments {
  std::string name;    ///< "net_af_packet0", "0000:3b:00.0".
  std::string driver;  ///< "net_af_packet"; "" for a PCI address.
  std::vector<std::pair<std::string, std::string>> values;  ///< In the user's order.
  std::optional<Mac> mac;  ///< The port's own address, for drivers without a kernel interface.

  const std::string* Find(absl::string_view key) const;
  /// The value of `key`, or "".
  std::string Value(absl::string_view key) const;
  /// Gives `key` a value where it has none.
  void AddDefault(absl::string_view key, absl::string_view value);
  const DriverRules& rules() const { return RulesOf(driver); }
  /// The kernel interface that the port sends and receives on, or "".
  std::string Interface() const;
  /// Whether the kernel goes on using that interface: then the interface's addresses, neighbours
  /// and routes are also the port's.
  bool IsShared() const;
  bool IsPci() const { return driver.empty(); }
  /// The arguments as DPDK takes them, separated by commas.
  std::string ToDpdk() const;
  /// What StableMac takes: it differs between devices, sockets, the two ends of a socket, and
  /// interfaces.
  std::string Identity() const;
  friend bool operator==(const DeviceArguments&, const DeviceArguments&) = default;
};

/// Parses `text`, whose parts are separated by ';' or ',', and adds what the driver needs to carry
/// RoCE frames, unless the user gave another value. `mac` is a key of every port without a kernel
/// interface. Errors name the device, the key, the value and what would be right.
absl::StatusOr<DeviceArguments> ParseDeviceArguments(const std::string& text);

/// The error of arguments that cannot be met: it names the device.
absl::Status BadArguments(const DeviceArguments& arguments, absl::string_view why);

/// Bytes, where neither the user nor an interface says another MTU.
inline constexpr uint32_t kStandardMtu = 1500;

/// How many frames a pool that serves one port alone has (DriverRules::own_pool_frame_bytes).
inline constexpr uint32_t kOwnPoolFrames = 8192;

/// Bytes of a frame that the mbufs of such a device must hold (see MakePool). `mtu_bytes` is the
/// MTU that the user asked for, or 0.
uint32_t RequiredFrameBytes(const DeviceArguments& arguments, uint32_t mtu_bytes);

}  // namespace uroce::drivers
