// SPDX-License-Identifier: Apache-2.0
// Where Wireshark looks for capture programs and dissectors of others, and the places of
// uroce-extcap and uroce.lua there.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace uroce::tools {

/// Wireshark's folders; "" for one that it does not have.
struct ExtcapFolders {
  std::string global;        ///< Of capture programs.
  std::string personal{};    ///< Since Wireshark 4.2.
  std::string global_lua{};  ///< Of dissectors.
  std::string personal_lua{};
};

/// From the text of `tshark -G folders`.
ExtcapFolders ParseExtcapFolders(const std::string& text);

/// Asks tshark or wireshark; without both, the folder that `ninja install` uses.
ExtcapFolders FindExtcapFolders();

/// Path of uroce-extcap where Wireshark finds it, or "".
std::string InstalledExtcap();

/// A link to uroce-extcap.
struct ExtcapLink {
  std::string path;
  std::string hint;  ///< What Wireshark must be told to look there; "" when it does by itself.
};

/// Links uroce-extcap into Wireshark's folder: root's into the global one, others' into their own.
/// Errors: kFailedPrecondition when this user cannot.
absl::StatusOr<ExtcapLink> InstallExtcap();

/// Links the dissector into this user's folder, where `ninja install` did not put it into the one
/// of all. Returns its path. Errors: as above.
absl::StatusOr<std::string> InstallDissector();

/// Removes such links; never what `ninja install` or a package put there. Returns that of
/// uroce-extcap.
absl::StatusOr<std::string> RemoveExtcap();

}  // namespace uroce::tools
