// SPDX-License-Identifier: Apache-2.0
// Writes the answers of uroce-extcap to Wireshark, in the format of extcap(4). Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace uroce::tools {

/// Interface that stands for all devices of the daemon.
inline constexpr absl::string_view kAllDevices = "uroce";

/// One NIC as Wireshark's list shows it.
struct ExtcapInterface {
  std::string device;
  std::string address;  ///< The first IP address, or "".
};

/// The NICs in the daemon's dump of devices; empty when `json` is no such dump.
std::vector<ExtcapInterface> ReadExtcapInterfaces(const std::string& json);

/// The answer to --extcap-interfaces: this program, its NICs and, if there are two or more, all as
/// one.
std::string DescribeInterfaces(const std::vector<ExtcapInterface>& interfaces);

/// The answer to --extcap-dlts: all devices carry Ethernet frames.
std::string DescribeLinkTypes(const std::string& interface);

/// The answer to --extcap-config: the options of a capture, which Wireshark passes with --capture.
std::string DescribeOptions();

/// The device of an interface that DescribeInterfaces names; "" for all devices.
std::string DeviceOfInterface(const std::string& interface);

}  // namespace uroce::tools
