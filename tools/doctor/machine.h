// SPDX-License-Identifier: Apache-2.0
// Reads the files under /proc, /sys and /dev for the checks of `uroce doctor`, and the result of a
// check.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace uroce::tools {

// ---- Findings ----

enum class Level : uint8_t {
  kOk,
  kNote,     ///< All works; something could be added or be faster.
  kProblem,  ///< Something does not work, or soon will not.
};

/// One line for people, and the command that mends what the line says.
struct Finding {
  Level level = Level::kOk;
  std::string check;  ///< The group of the check: "daemon", "kernel".
  std::string text;
  std::string fix;  ///< A command for a shell; "" when there is nothing to do.
};

using Findings = std::vector<Finding>;

// ---- Files, below a root that tests choose ----

/// Paths are absolute, as on the machine. A file that cannot be read gives no value; each check
/// decides what that means.
class Machine {
 public:
  /// `root` "" stands for the machine itself.
  explicit Machine(std::string root = "") : root_(std::move(root)) {}

  /// The text of a file, up to 1 MiB.
  std::optional<std::string> Read(const std::string& path) const;
  /// The number in a file that holds one.
  std::optional<uint64_t> ReadNumber(const std::string& path) const;
  /// Lines of a file of any length; nullopt when it cannot be read.
  std::optional<uint64_t> CountLines(const std::string& path) const;
  /// Names in a directory, sorted.
  std::vector<std::string> List(const std::string& path) const;
  /// The target of a link, as it is written.
  std::optional<std::string> ReadLink(const std::string& path) const;
  bool Exists(const std::string& path) const;
  /// Whether this process may open the file for reading and writing.
  bool MayUse(const std::string& path) const;

 private:
  std::string root_;
};

/// The value of a line "NAME: VALUE" or "NAME VALUE" of a file like /proc/self/status, without
/// blanks around it.
std::optional<std::string> FieldOf(const std::string& text, const std::string& name);

}  // namespace uroce::tools
