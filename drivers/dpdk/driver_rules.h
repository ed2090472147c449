// SPDX-License-Identifier: Apache-2.0
// What this program knows of DPDK's drivers: their keys, and the ways in which they differ. Pure.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace uroce::drivers {

/// How a sleeping worker learns that a device has frames.
enum class WakeUp : uint8_t {
  kTimer,         ///< It looks, now and then.
  kInterrupt,     ///< The driver's receive interrupts, where the device has them.
  kPacketSocket,  ///< The driver's AF_PACKET sockets are readable.
  kXdpSocket,     ///< The driver's AF_XDP sockets are readable.
  kTapQueue,      ///< The driver's queues of the TAP are readable.
};

/// One driver. Sizes in bytes.
struct DriverRules {
  absl::string_view driver;
  /// All keys that it takes; empty: not known here, DPDK checks them.
  std::vector<absl::string_view> keys;
  /// One of these must be given; empty: none need be.
  std::vector<absl::string_view> required;
  /// Used where the user is silent.
  std::vector<std::pair<absl::string_view, absl::string_view>> defaults;
  /// The key that takes the number of queues, or "".
  absl::string_view queues_key;
  /// Keys that name a kernel interface which the port sends and receives on: MAC, MTU and link are
  /// the interface's.
  std::vector<absl::string_view> interface_keys;
  /// The kernel does not see what arrives there, unless this key is given.
  absl::string_view takes_interface_without;
  WakeUp wake_up = WakeUp::kTimer;
  /// Room for a frame in mbufs of a pool that is this port's alone, because its driver shares the
  /// memory with the kernel; 0: the pool of all ports.
  uint32_t own_pool_frame_bytes = 0;
  /// The Ethernet payload that fits its frames; 0: what a frame of the pool holds.
  uint32_t mtu_limit = 0;
  /// The device has no address of its own: the port makes up one, always the same.
  bool made_up_mac = false;
  /// The device itself is told the MTU.
  bool sets_mtu = false;
  /// As many transmit queues as receive queues, or it does not start.
  bool pairs_queues = false;
  /// Its error counter also counts the frames that it only asks to have again.
  bool counts_refusals = false;
};

/// The rules of a driver such as "net_vhost", or of physical NICs for "". For a driver that is not
/// in the table: no keys, no defaults, a timer.
const DriverRules& RulesOf(absl::string_view driver);

}  // namespace uroce::drivers
