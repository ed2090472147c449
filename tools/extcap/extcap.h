// SPDX-License-Identifier: Apache-2.0
// What uroce-extcap tells Wireshark, in the sentences of extcap(4). Pure.
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

/// The NICs in the daemon's dump of devices; none when it is no such dump.
std::vector<ExtcapInterface> ReadExtcapInterfaces(const std::string& json);

/// Answer to --extcap-interfaces: this program, its NICs and, with two or more, all of them as one.
std::string DescribeInterfaces(const std::vector<ExtcapInterface>& interfaces);

/// Answer to --extcap-dlts: all devices carry Ethernet frames.
std::string DescribeLinkTypes(const std::string& interface);

/// Answer to --extcap-config: the options of a capture, which come back as flags of --capture.
std::string DescribeOptions();

/// The device that an interface of DescribeInterfaces names; "" for all.
std::string DeviceOfInterface(const std::string& interface);

}  // namespace uroce::tools
