// SPDX-License-Identifier: Apache-2.0
// Starts programs with liburoce.so in front of libibverbs, and tells whether libraries can be
// preloaded into a program.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace uroce::tools {

// ---- Whether libraries can be preloaded into a program ----

/// Ok for programs that the dynamic linker starts, for scripts, and for files that do not exist or
/// cannot be read: running those reports the error. Errors: FailedPrecondition, with the reason,
/// for programs into which no library can be preloaded.
absl::Status CheckTakesPreload(const std::string& program);

// ---- A program with liburoce.so in front of libibverbs ----

/// The environment variables that make a program find the daemon.
struct LaunchEnvironment {
  std::string preload;  ///< LD_PRELOAD: liburoce.so, then the former value.
  std::string socket;   ///< UROCE_SOCKET
  std::string asan;     ///< ASAN_OPTIONS: the former value, and what liburoce.so needs.
};

/// The path of this program, for use in commands.
std::string OwnPath();

/// A folder that is given from the folder of this program: "../lib".
std::string FromOwnFolder(const char* folder);

/// The path of liburoce.so: in the build tree of this program, or where it is installed from there.
absl::StatusOr<std::string> FindLibrary();

/// Ok when liburoce-verbs.so lies beside `library`, the path of liburoce.so. Otherwise programs
/// that open libibverbs by dlopen find no device; NotFound says so.
absl::Status CheckFront(const std::string& library);

/// `existing` is the former LD_PRELOAD. liburoce.so comes first and never twice: the linker must
/// find it before the libraries that it replaces.
std::string PrependPreload(const std::string& library, const std::string& existing);

/// `existing` is the former ASAN_OPTIONS. A program built with AddressSanitizer exits before main
/// when a library is preloaded before the sanitizer's own. The added option turns that check off,
/// unless `existing` sets it. Other programs do not read this variable.
std::string AppendAsanOptions(const std::string& existing);

absl::StatusOr<LaunchEnvironment> MakeLaunchEnvironment(const std::string& socket_path);

/// Lines for a shell's `eval`, with quotes.
std::string ToShellExports(const LaunchEnvironment& environment);

/// Replaces this process by the program; returns only when that fails.
absl::Status Exec(const LaunchEnvironment& environment, const std::vector<std::string>& command);

// Exit statuses as of shells and env(1).
inline constexpr int kExitNotRunnable = 126;
inline constexpr int kExitNoProgram = 127;
/// The exit status for an error of Exec.
int ExitStatusOfExec(const absl::Status& error);

}  // namespace uroce::tools
