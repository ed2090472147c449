// SPDX-License-Identifier: Apache-2.0
#include "tools/client/program_kind.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace uroce::tools {
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

}  // namespace uroce::tools
