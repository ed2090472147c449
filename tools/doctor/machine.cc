// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/machine.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace uroce::tools {
namespace {

constexpr std::streamsize kMaxFileBytes = 1 << 20;

}  // namespace

std::optional<std::string> Machine::Read(const std::string& path) const {
  std::ifstream file(root_ + path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(kMaxFileBytes, '\0');
  file.read(text.data(), kMaxFileBytes);
  if (file.bad()) return std::nullopt;
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

std::optional<uint64_t> Machine::ReadNumber(const std::string& path) const {
  const std::optional<std::string> text = Read(path);
  uint64_t number = 0;
  if (!text || !absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &number)) return std::nullopt;
  return number;
}

std::optional<uint64_t> Machine::CountLines(const std::string& path) const {
  std::ifstream file(root_ + path);
  if (!file) return std::nullopt;
  uint64_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

std::vector<std::string> Machine::List(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(root_ + path, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::string> Machine::ReadLink(const std::string& path) const {
  std::error_code error;
  const auto target = std::filesystem::read_symlink(root_ + path, error);
  if (error) return std::nullopt;
  return target.string();
}

bool Machine::Exists(const std::string& path) const {
  std::error_code error;
  return std::filesystem::exists(root_ + path, error);
}

bool Machine::MayUse(const std::string& path) const {
  return access((root_ + path).c_str(), R_OK | W_OK) == 0;
}

std::optional<std::string> FieldOf(const std::string& text, const std::string& name) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, name) || line.size() == name.size()) continue;
    absl::string_view rest = line.substr(name.size());
    if (rest.front() != ':' && !absl::ascii_isspace(rest.front())) continue;
    rest = absl::StripAsciiWhitespace(rest);
    if (absl::StartsWith(rest, ":")) rest = absl::StripAsciiWhitespace(rest.substr(1));
    return std::string(rest);
  }
  return std::nullopt;
}

}  // namespace uroce::tools
