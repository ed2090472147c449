// SPDX-License-Identifier: Apache-2.0
#include "tools/client/launch.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace uroce::tools {
namespace {

std::string Quote(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

const char* EnvironmentOr(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value != nullptr ? value : otherwise;
}

}  // namespace

std::string OwnPath() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "uroce" : self.string();
}

std::string FromOwnFolder(const char* folder) {
  return (std::filesystem::path(OwnPath()).parent_path() / folder).lexically_normal().string();
}

absl::StatusOr<std::string> FindLibrary() {
  // Never from the folder in which somebody happens to be.
  if (!std::filesystem::path(OwnPath()).is_absolute()) {
    return absl::NotFoundError("where liburoce.so lies cannot be told: /proc/self/exe is missing");
  }
  std::error_code error;
  const std::string places[] = {FromOwnFolder("../verbs-shim/liburoce.so"),
                                FromOwnFolder(UROCE_SHIM_DIR "/liburoce.so")};
  for (const std::string& place : places) {
    const auto found = std::filesystem::canonical(place, error);
    if (!error) return found.string();
  }
  return absl::NotFoundError(
      absl::StrCat("liburoce.so is neither at ", places[0], " nor at ", places[1]));
}

std::string PrependPreload(const std::string& library, const std::string& existing) {
  std::string preload = library;
  // ld.so separates by blanks and colons.
  for (const auto part : absl::StrSplit(existing, absl::ByAnyChar(" :"), absl::SkipEmpty())) {
    if (part != library) absl::StrAppend(&preload, ":", part);
  }
  return preload;
}

std::string AppendAsanOptions(const std::string& existing) {
  constexpr absl::string_view kOption = "verify_asan_link_order";
  if (absl::StrContains(existing, kOption)) return existing;
  return absl::StrCat(existing, existing.empty() ? "" : ":", kOption, "=0");
}

absl::StatusOr<LaunchEnvironment> MakeLaunchEnvironment(const std::string& socket_path) {
  absl::StatusOr<std::string> library = FindLibrary();
  if (!library.ok()) return library.status();
  if (library->find_first_of(" :") != std::string::npos) {
    return absl::FailedPreconditionError(
        absl::StrCat("LD_PRELOAD cannot hold '", *library, "': its path has a blank or a colon"));
  }
  // Programs go to other folders.
  std::error_code error;
  const std::filesystem::path socket = std::filesystem::absolute(socket_path, error);
  return LaunchEnvironment{PrependPreload(*library, EnvironmentOr("LD_PRELOAD", "")),
                           error ? socket_path : socket.string(),
                           AppendAsanOptions(EnvironmentOr("ASAN_OPTIONS", ""))};
}

std::string ToShellExports(const LaunchEnvironment& environment) {
  return absl::StrCat("export LD_PRELOAD=", Quote(environment.preload),
                      "\nexport UROCE_SOCKET=", Quote(environment.socket),
                      "\nexport ASAN_OPTIONS=", Quote(environment.asan), "\n");
}

absl::Status Exec(const LaunchEnvironment& environment, const std::vector<std::string>& command) {
  setenv("LD_PRELOAD", environment.preload.c_str(), 1);
  setenv("UROCE_SOCKET", environment.socket.c_str(), 1);
  setenv("ASAN_OPTIONS", environment.asan.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot run ", command[0]));
}

}  // namespace uroce::tools
