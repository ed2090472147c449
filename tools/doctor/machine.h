// SPDX-License-Identifier: Apache-2.0
// The files under /proc, /sys and /dev that checks read, below a root that tests choose.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace uroce::tools {

/// Paths are absolute, as on the machine. What cannot be read is absent: a check says what that
/// means.
class Machine {
 public:
  /// `root` "" is the machine itself.
  explicit Machine(std::string root = "") : root_(std::move(root)) {}

  /// The text of a file, up to 1 MiB.
  std::optional<std::string> Read(const std::string& path) const;
  /// A file that holds one number.
  std::optional<uint64_t> ReadNumber(const std::string& path) const;
  /// Lines of a file of any length; nullopt when it cannot be read.
  std::optional<uint64_t> CountLines(const std::string& path) const;
  /// Names in a directory, sorted.
  std::vector<std::string> List(const std::string& path) const;
  /// What a link points to, as it is written.
  std::optional<std::string> ReadLink(const std::string& path) const;
  bool Exists(const std::string& path) const;
  /// Whether this process may open it for reading and writing.
  bool MayUse(const std::string& path) const;

 private:
  std::string root_;
};

/// The value of a line "NAME: VALUE" or "NAME VALUE" of a file like /proc/self/status, without
/// blanks around it.
std::optional<std::string> FieldOf(const std::string& text, const std::string& name);

}  // namespace uroce::tools
