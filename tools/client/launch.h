// SPDX-License-Identifier: Apache-2.0
// Starting programs with liburoce.so in front of libibverbs.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace uroce::tools {

/// The variables that a program needs to meet the daemon.
struct LaunchEnvironment {
  std::string preload;  ///< LD_PRELOAD: liburoce.so, then what was there.
  std::string socket;   ///< UROCE_SOCKET
  std::string asan;     ///< ASAN_OPTIONS: what was there, and what liburoce.so needs.
};

/// Path of this program, to be used in commands.
std::string OwnPath();

/// Where liburoce.so is: beside this binary in a build tree, else where it is installed.
absl::StatusOr<std::string> FindLibrary();

/// `existing` is the LD_PRELOAD so far. liburoce.so is put first and never twice: it must be found
/// before the libraries that it stands in for.
std::string PrependPreload(const std::string& library, const std::string& existing);

/// `existing` is the ASAN_OPTIONS so far. A program built with AddressSanitizer ends before its
/// main where a library is preloaded before the sanitizer's own; it is told not to look, unless
/// `existing` says what it shall do. Other programs do not read this.
std::string AppendAsanOptions(const std::string& existing);

absl::StatusOr<LaunchEnvironment> MakeLaunchEnvironment(const std::string& socket_path);

/// Lines for a shell's `eval`, quoted.
std::string ToShellExports(const LaunchEnvironment& environment);

/// Becomes the program; returns only when that fails.
absl::Status Exec(const LaunchEnvironment& environment, const std::vector<std::string>& command);

}  // namespace uroce::tools
