// SPDX-License-Identifier: Apache-2.0
#include "tools/extcap/extcap.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "tools/client/launch.h"
#include "tools/views/dump_view.h"

namespace uroce::tools {

// ---- Answers ----

namespace {

constexpr char kHelp[] = "https://www.wireshark.org/docs/man-pages/extcap.html";

/// Whether Wireshark reads the text as it stands in a sentence.
bool IsPlain(absl::string_view text) {
  return std::ranges::none_of(text, [](char each) {
    return each == '{' || each == '}' || absl::ascii_iscntrl(static_cast<unsigned char>(each));
  });
}

std::string Sentence(absl::string_view value, absl::string_view display) {
  return absl::StrCat("interface {value=", value, "}{display=", display, "}\n");
}

std::string FirstAddress(const Json& device) {
  const auto addresses = device.find("addresses");
  if (addresses == device.end() || !addresses->is_array() || addresses->empty()) return "";
  if (!addresses->front().is_string()) return "";
  std::string address = addresses->front().get<std::string>();
  return IsPlain(address) ? address : "";
}

}  // namespace

std::vector<ExtcapInterface> ReadExtcapInterfaces(const std::string& json) {
  std::vector<ExtcapInterface> interfaces;
  const Json dump = ParseDump(json).value_or(Json());
  if (!dump.is_object() || !dump.contains("devices")) return interfaces;
  for (const Json& device : dump["devices"]) {
    if (!device.is_object() || !device.contains("name") || !device["name"].is_string()) continue;
    std::string name = device["name"].get<std::string>();
    if (IsPlain(name)) interfaces.push_back({std::move(name), FirstAddress(device)});
  }
  return interfaces;
}

std::string DescribeInterfaces(const std::vector<ExtcapInterface>& interfaces) {
  std::string text = absl::StrCat("extcap {version=" UROCE_VERSION "}{help=", kHelp, "}\n");
  for (const ExtcapInterface& interface : interfaces) {
    const std::string at = interface.address.empty() ? "" : absl::StrCat(", ", interface.address);
    absl::StrAppend(&text, Sentence(interface.device, "RoCEv2 NIC of uroced" + at));
  }
  const bool is_free =
      std::none_of(interfaces.begin(), interfaces.end(),
                   [](const ExtcapInterface& i) { return i.device == kAllDevices; });
  if (interfaces.size() > 1 && is_free) {
    absl::StrAppend(&text, Sentence(kAllDevices, "all RoCEv2 NICs of uroced"));
  }
  return text;
}

std::string DescribeLinkTypes(const std::string&) {
  return "dlt {number=1}{name=EN10MB}{display=Ethernet}\n";
}

std::string DescribeOptions() {
  return "arg {number=0}{call=--snap-length}{display=Bytes kept of each packet}{type=unsigned}"
         "{range=0,65535}{default=0}{tooltip=0 keeps all; 128 holds all headers}\n"
         "arg {number=1}{call=--direction}{display=Direction}{type=selector}{default=inout}\n"
         "value {arg=1}{value=inout}{display=received and sent}{default=true}\n"
         "value {arg=1}{value=in}{display=received}\n"
         "value {arg=1}{value=out}{display=sent}\n"
         "arg {number=2}{call=--only}{display=Only packets that were}{type=multicheck}"
         "{tooltip=None marked: all packets}\n"
         "value {arg=2}{value=dropped}{display=dropped}\n"
         "value {arg=2}{value=retransmitted}{display=retransmitted}\n"
         "value {arg=2}{value=marked}{display=marked (congestion)}\n"
         "arg {number=3}{call=--socket}{display=Control socket}{type=string}"
         "{placeholder=" UROCE_DEFAULT_SOCKET
         "}{tooltip=Of a uroced that is not at its usual "
         "place}\n";
}

std::string DeviceOfInterface(const std::string& interface) {
  return interface == kAllDevices ? "" : interface;
}

// ---- Folders ----

namespace {

namespace fs = std::filesystem;

constexpr char kName[] = "uroce-extcap";
constexpr char kDissector[] = "uroce.lua";

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

/// The path of a file: beside this program in a build tree, or where `ninja install` puts it.
absl::StatusOr<fs::path> FindInstalled(const char* name, const std::string& folder) {
  for (const fs::path& place :
       {fs::path(OwnPath()).parent_path() / name, fs::path(folder) / name}) {
    if (IsThere(place)) return place;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("extcap: ", name, " is neither beside ", OwnPath(), " nor in ", folder));
}

absl::StatusOr<fs::path> BelowHome(const char* folder) {
  const char* home = getenv("HOME");
  if (home != nullptr && *home != 0) return fs::path(home) / folder;
  return absl::FailedPreconditionError("extcap: HOME is not set: whose folder?");
}

/// The folder that this user may write to. Wireshark before 4.2 has none for users other than root:
/// then this is the folder of later versions.
absl::StatusOr<fs::path> FolderOfUser(const ExtcapFolders& folders) {
  if (geteuid() == 0) return fs::path(folders.global);
  if (!folders.personal.empty()) return fs::path(folders.personal);
  return BelowHome(".local/lib/wireshark/extcap");
}

absl::StatusOr<fs::path> DissectorFolder(const ExtcapFolders& folders) {
  if (!folders.personal_lua.empty()) return fs::path(folders.personal_lua);
  return BelowHome(".local/lib/wireshark/plugins");
}

/// Makes a link. A file that is no link was installed by `ninja install`, and stays.
absl::Status PutLink(const fs::path& link, const fs::path& target) {
  if (IsThere(link) && !fs::is_symlink(link)) return absl::OkStatus();
  std::error_code error;
  fs::create_directories(link.parent_path(), error);
  fs::remove(link, error);
  fs::create_symlink(target, link, error);
  if (!error) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("extcap: ", link.string(), ": ", error.message()));
}

/// Removes a link. False: there is none.
absl::StatusOr<bool> TakeLink(const fs::path& link) {
  std::error_code error;
  if (!fs::is_symlink(link, error)) return false;
  if (fs::remove(link, error)) return true;
  return absl::FailedPreconditionError(
      absl::StrCat("extcap: ", link.string(), ": ", error.message()));
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
    if (colon == line.npos) continue;
    const absl::string_view name = line.substr(0, colon);
    const std::string path(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    const bool is_personal = absl::StartsWithIgnoreCase(name, "personal");
    if (absl::EndsWithIgnoreCase(name, "extcap path")) {
      (is_personal ? folders.personal : folders.global) = path;
    } else if (absl::EndsWithIgnoreCase(name, "lua plugins")) {
      (is_personal ? folders.personal_lua : folders.global_lua) = path;
    }
  }
  return folders;
}

ExtcapFolders FindExtcapFolders() {
  for (const char* command :
       {"tshark -G folders 2>/dev/null", "wireshark -G folders 2>/dev/null"}) {
    ExtcapFolders folders = ParseExtcapFolders(OutputOf(command));
    if (!folders.global.empty()) return folders;
  }
  return {.global = FromOwnFolder(UROCE_EXTCAP_DIR)};
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
  const absl::StatusOr<fs::path> program = FindInstalled(kName, FromOwnFolder(UROCE_EXTCAP_DIR));
  if (!program.ok()) return program.status();
  const ExtcapFolders folders = FindExtcapFolders();
  const absl::StatusOr<fs::path> folder = FolderOfUser(folders);
  if (!folder.ok()) return folder.status();
  const ExtcapLink link{(*folder / kName).string(), HintFor(folders, *folder)};
  if (absl::Status status = PutLink(link.path, *program); !status.ok()) return status;
  return link;
}

absl::StatusOr<std::string> InstallDissector() {
  const ExtcapFolders folders = FindExtcapFolders();
  const fs::path of_all = fs::path(folders.global_lua) / kDissector;
  if (!folders.global_lua.empty() && IsThere(of_all)) return of_all.string();
  const absl::StatusOr<fs::path> script = FindInstalled(kDissector, FromOwnFolder(UROCE_LUA_DIR));
  if (!script.ok()) return script.status();
  const absl::StatusOr<fs::path> folder = DissectorFolder(folders);
  if (!folder.ok()) return folder.status();
  const fs::path link = *folder / kDissector;
  if (absl::Status status = PutLink(link, *script); !status.ok()) return status;
  return link.string();
}

absl::StatusOr<std::string> RemoveExtcap() {
  const ExtcapFolders folders = FindExtcapFolders();
  const absl::StatusOr<fs::path> lua_folder = DissectorFolder(folders);
  if (lua_folder.ok()) {
    const absl::StatusOr<bool> taken = TakeLink(*lua_folder / kDissector);
    if (!taken.ok()) return taken.status();
  }
  const absl::StatusOr<fs::path> folder = FolderOfUser(folders);
  if (!folder.ok()) return folder.status();
  const fs::path link = *folder / kName;
  const absl::StatusOr<bool> taken = TakeLink(link);
  if (!taken.ok()) return taken.status();
  if (*taken) return link.string();
  return absl::FailedPreconditionError(
      absl::StrCat("extcap: ", link.string(), ": there is no link of --install"));
}

}  // namespace uroce::tools
