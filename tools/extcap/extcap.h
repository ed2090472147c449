// SPDX-License-Identifier: Apache-2.0
// The answers of uroce-extcap to Wireshark, and the folders in which Wireshark finds it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace uroce::tools {

// ---- Answers, in the format of extcap(4). Pure ----

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

// ---- Folders ----

/// Wireshark's folders; "" for a folder that Wireshark does not have.
struct ExtcapFolders {
  std::string global;        ///< Of capture programs.
  std::string personal{};    ///< Since Wireshark 4.2.
  std::string global_lua{};  ///< Of dissectors.
  std::string personal_lua{};
};

/// Parses the output of `tshark -G folders`.
ExtcapFolders ParseExtcapFolders(const std::string& text);

/// Asks tshark or wireshark. Without both, returns the folder that `ninja install` uses.
ExtcapFolders FindExtcapFolders();

/// Path of uroce-extcap where Wireshark finds it, or "".
std::string InstalledExtcap();

/// A link to uroce-extcap.
struct ExtcapLink {
  std::string path;
  std::string hint;  ///< What Wireshark must be told to look there; "" for nothing.
};

/// Links uroce-extcap into Wireshark's folder: for root the global one, for others the personal
/// one. Errors: kFailedPrecondition when this user may not write there.
absl::StatusOr<ExtcapLink> InstallExtcap();

/// Links the dissector into this user's folder, unless `ninja install` put it into the global one.
/// Returns its path. Errors as above.
absl::StatusOr<std::string> InstallDissector();

/// Removes these links, but not files that `ninja install` or a package installed. Returns the path
/// of uroce-extcap's link.
absl::StatusOr<std::string> RemoveExtcap();

}  // namespace uroce::tools
