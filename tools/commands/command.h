// SPDX-License-Identifier: Apache-2.0
// What all sub-commands of `uroce` share: the daemon's socket, how they print and how they end, and
// the check of flags whose value is a whole number.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace uroce::tools {

// A check of flags whose value is a whole number.

/// Decimal or 0x. The message names the word and both ends; CLI11's own calls a word "not in
/// range".
CLI::Validator WholeNumber(uint64_t least, uint64_t most = std::numeric_limits<uint64_t>::max());

// What all sub-commands of `uroce` share: the daemon's socket, how they print and how they end.

inline constexpr int kExitFailed = 1;  ///< The command ran and failed.
inline constexpr int kExitUsage = 2;   ///< It could not start: flags, values, no daemon.

/// One run of the tool. Outlives the parse, in which the callback of the chosen sub-command runs.
struct Invocation {
  std::string socket;   ///< The value of --socket, or "".
  int exit_status = 0;  ///< The sub-command's callback sets it.

  /// The socket that --socket, the environment or the default names.
  std::string SocketPath() const;
};

/// Accepts the flag before the sub-command and after it: people try both.
void AddSocketFlag(CLI::App& app, Invocation& invocation);

/// Prints an error to stderr. Returns the exit status.
int Report(const absl::Status& status);
/// Prints the text to stdout, or its error to stderr. Returns the exit status.
int Print(const absl::StatusOr<std::string>& text);

}  // namespace uroce::tools
