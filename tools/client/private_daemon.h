// SPDX-License-Identifier: Apache-2.0
// A program with its own daemon, for `uroce run --private`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace uroce::tools {

/// The path of uroced: in the build tree of this program, or where it is installed from there.
absl::StatusOr<std::string> FindDaemon();

/// Starts uroced with `options`, then the program, and ends the daemon when the program and all of
/// its children have ended. The daemon's socket and its log, "uroced.log", lie in a directory that
/// is removed at the end, also when a signal has killed this process.
///
/// Signals that another process sends here go to the program; those of the terminal reach it
/// without help. A signal that comes when only children of the program are left ends these.
///
/// Returns the program's exit status: 128 and the signal's number if a signal has killed it, 126 or
/// 127 if it could not be started. Range: single-threaded callers, `program` is not empty. Errors:
/// the daemon could not be started, with what it said.
absl::StatusOr<int> RunWithPrivateDaemon(const std::vector<std::string>& options,
                                         const std::vector<std::string>& program);

}  // namespace uroce::tools
