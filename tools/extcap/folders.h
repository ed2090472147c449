// SPDX-License-Identifier: Apache-2.0
// Finds the folders in which Wireshark looks for capture programs and dissectors, and the places of
// uroce-extcap and uroce.lua there.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace uroce::tools {

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
