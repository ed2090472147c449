// SPDX-License-Identifier: Apache-2.0
#include "tools/client/launch.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace uroce::tools {

// ---- Whether libraries can be preloaded into a program ----

namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
constexpr char kMachineName[] = "x86-64";
#else
constexpr uint16_t kMachine = EM_AARCH64;
constexpr char kMachineName[] = "arm64";
#endif

/// The path at which execvp finds the program, or "".
std::string Find(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* path = std::getenv("PATH");
  for (const auto directory : absl::StrSplit(path == nullptr ? "/bin:/usr/bin" : path, ':')) {
    const std::string place = absl::StrCat(directory, "/", program);
    if (access(place.c_str(), X_OK) == 0) return place;
  }
  return "";
}

template <typename T>
bool ReadAt(std::ifstream& file, uint64_t offset, T& value) {
  file.seekg(static_cast<std::streamoff>(offset));
  return static_cast<bool>(file.read(reinterpret_cast<char*>(&value), sizeof(value)));
}

bool HasInterpreter(std::ifstream& file, const Elf64_Ehdr& header) {
  for (uint32_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    if (!ReadAt(file, header.e_phoff + uint64_t{i} * header.e_phentsize, part)) return false;
    if (part.p_type == PT_INTERP) return true;
  }
  return false;
}

/// Why no library can be preloaded into the program, or "".
std::string Obstacle(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!ReadAt(file, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "";
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine) {
    return absl::StrCat("it is no ", kMachineName, " program");
  }
  if (!HasInterpreter(file, header)) return "it is statically linked";
  struct stat status {};
  const bool is_known = stat(path.c_str(), &status) == 0;
  const bool is_setuid = is_known && (status.st_mode & S_ISUID) != 0;
  return is_setuid && status.st_uid != getuid() ? "it is setuid" : "";
}

}  // namespace

absl::Status CheckTakesPreload(const std::string& program) {
  const std::string path = Find(program);
  const std::string obstacle = path.empty() ? "" : Obstacle(path);
  if (obstacle.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cannot run ", path, ": ", obstacle, ", so liburoce.so cannot be put in front"));
}

// ---- A program with liburoce.so in front of libibverbs ----

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
  // Never from the current folder of the user.
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

absl::Status CheckFront(const std::string& library) {
  const std::filesystem::path front =
      std::filesystem::path(library).replace_filename("liburoce-verbs.so");
  if (access(front.c_str(), R_OK) == 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(
      front.string(), " is missing: programs that open libibverbs by dlopen see no devices"));
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

int ExitStatusOfExec(const absl::Status& error) {
  return absl::IsNotFound(error) ? kExitNoProgram : kExitNotRunnable;
}

}  // namespace uroce::tools
