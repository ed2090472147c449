// SPDX-License-Identifier: Apache-2.0
// Where Wireshark looks for capture programs of others, and uroce-extcap's place there.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace uroce::tools {

/// Wireshark's folders of capture programs; "" for one that it does not have.
struct ExtcapFolders {
  std::string global;
  std::string personal;  ///< Since Wireshark 4.2.
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

/// Removes such a link; never a program that `ninja install` or a package put there.
absl::StatusOr<std::string> RemoveExtcap();

}  // namespace uroce::tools
