// SPDX-License-Identifier: Apache-2.0
#include "tools/extcap_folders.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/launch.h"

namespace uroce::tools {
namespace {

namespace fs = std::filesystem;

constexpr char kName[] = "uroce-extcap";

struct ClosePipe {
  void operator()(FILE* pipe) const { pclose(pipe); }
};

std::string OutputOf(const char* command) {
  const std::unique_ptr<FILE, ClosePipe> pipe(popen(command, "re"));
  std::string text;
  char part[4096];
  while (pipe) {
    const size_t length = fread(part, 1, sizeof(part), pipe.get());
    if (length == 0) break;
    text.append(part, length);
  }
  return text;
}

bool IsThere(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// Beside this program in a build tree, else where `ninja install` puts it.
absl::StatusOr<fs::path> FindProgram() {
  for (const fs::path& place :
       {fs::path(OwnPath()).parent_path() / kName, fs::path(UROCE_EXTCAP_DIR) / kName}) {
    if (IsThere(place)) return place;
  }
  return absl::FailedPreconditionError(absl::StrCat("extcap: ", kName, " is neither beside ",
                                                    OwnPath(), " nor in ", UROCE_EXTCAP_DIR));
}

/// The folder that this user may write to. Wireshark before 4.2 has none for users who are not
/// root: then it is the one of later versions.
absl::StatusOr<fs::path> FolderOfUser(const ExtcapFolders& folders) {
  if (geteuid() == 0) return fs::path(folders.global);
  if (!folders.personal.empty()) return fs::path(folders.personal);
  const char* home = getenv("HOME");
  if (home != nullptr && *home != 0) return fs::path(home) / ".local/lib/wireshark/extcap";
  return absl::FailedPreconditionError("extcap: HOME is not set: whose folder?");
}

std::string HintFor(const ExtcapFolders& folders, const fs::path& folder) {
  if (geteuid() == 0 || !folders.personal.empty()) return "";
  return absl::StrCat(
      "This Wireshark looks there, and nowhere else, with: export "
      "WIRESHARK_EXTCAP_DIR=",
      folder.string());
}

}  // namespace

ExtcapFolders ParseExtcapFolders(const std::string& text) {
  ExtcapFolders folders;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon == line.npos || !absl::EndsWithIgnoreCase(line.substr(0, colon), "extcap path")) {
      continue;
    }
    const std::string path(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    (absl::StartsWithIgnoreCase(line, "personal") ? folders.personal : folders.global) = path;
  }
  return folders;
}

ExtcapFolders FindExtcapFolders() {
  for (const char* command :
       {"tshark -G folders 2>/dev/null", "wireshark -G folders 2>/dev/null"}) {
    ExtcapFolders folders = ParseExtcapFolders(OutputOf(command));
    if (!folders.global.empty()) return folders;
  }
  return {.global = UROCE_EXTCAP_DIR, .personal = ""};
}

std::string InstalledExtcap() {
  const ExtcapFolders folders = FindExtcapFolders();
  for (const std::string& folder : {folders.personal, folders.global}) {
    const fs::path place = fs::path(folder) / kName;
    if (!folder.empty() && IsThere(place)) return place.string();
  }
  return "";
}

absl::StatusOr<ExtcapLink> InstallExtcap() {
  const absl::StatusOr<fs::path> program = FindProgram();
  if (!program.ok()) return program.status();
  const ExtcapFolders folders = FindExtcapFolders();
  const absl::StatusOr<fs::path> folder = FolderOfUser(folders);
  if (!folder.ok()) return folder.status();
  const ExtcapLink link{(*folder / kName).string(), HintFor(folders, *folder)};
  if (IsThere(link.path) && !fs::is_symlink(link.path)) return link;  // By `ninja install`.
  std::error_code error;
  fs::create_directories(*folder, error);
  fs::remove(link.path, error);
  fs::create_symlink(*program, link.path, error);
  if (!error) return link;
  return absl::FailedPreconditionError(absl::StrCat("extcap: ", link.path, ": ", error.message()));
}

absl::StatusOr<std::string> RemoveExtcap() {
  const absl::StatusOr<fs::path> folder = FolderOfUser(FindExtcapFolders());
  if (!folder.ok()) return folder.status();
  const fs::path link = *folder / kName;
  std::error_code error;
  if (!fs::is_symlink(link, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat("extcap: ", link.string(), " is no link that --install made"));
  }
  if (!fs::remove(link, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat("extcap: ", link.string(), ": ", error.message()));
  }
  return link.string();
}

}  // namespace uroce::tools
