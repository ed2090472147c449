// SPDX-License-Identifier: Apache-2.0
// The sub-commands of `uroce`, and what they share: the daemon's socket, how they print and how
// they end.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace uroce::tools {

class Command;

// ---- One run of `uroce` ----

inline constexpr int kExitFailed = 1;  ///< The command ran and failed.
inline constexpr int kExitUsage = 2;   ///< It could not start: flags, values, no daemon.

/// Outlives the parse.
struct Invocation {
  std::string socket;   ///< The value of --socket, or "".
  int exit_status = 0;  ///< The sub-command's callback sets it.

  /// The socket that --socket, the environment or the default names.
  std::string SocketPath() const;
};

/// Accepts the flag before the sub-command and after it: people try both.
void AddSocketFlag(const Command& command, Invocation& invocation);

/// Prints an error to stderr. Returns the exit status.
int Report(const absl::Status& status);
/// Prints the text to stdout, or its error to stderr. Returns the exit status.
int Print(const absl::StatusOr<std::string>& text);

// ---- Sub-commands ----
// Each function adds some of them, with their flags, to `app`.

/// The listings that have no other commands below them: devices, stat, qp, cq, mr, srq, pd, ctx,
/// peers, cm.
void AddListings(const Command& app, Invocation& invocation);
/// top: the highest rates, again after each interval. monitor: events as they come.
void AddWatching(const Command& app, Invocation& invocation);
/// What changes the daemon while it runs, and shows what can be changed: cc, switch, fault, config,
/// port.
void AddChanges(const Command& app, Invocation& invocation);

/// capture and history: packets as pcapng files.
void AddCaptures(const Command& app, Invocation& invocation);

/// analyze: the story of captures of any network.
void AddAnalyze(const Command& app, Invocation& invocation);

/// sim: any network in virtual time.
void AddSim(const Command& app, Invocation& invocation);

/// The words of `uroce run` that this tool must not parse.
struct RunWords {
  bool is_private = false;                  ///< --private was given.
  std::vector<std::string> daemon_options;  ///< For the private uroced.
  std::vector<std::string> program;         ///< The program and its arguments.
};
/// Removes these words from `arguments`.
RunWords TakeProgram(std::vector<std::string>& arguments);
/// run and env: programs on the daemon's devices. `words` outlives the parse.
void AddLaunchers(const Command& app, Invocation& invocation, const RunWords& words);

/// doctor and extcap: what this machine has, without a daemon too.
void AddDoctor(const Command& app, Invocation& invocation);
void AddExtcap(const Command& app, Invocation& invocation);

}  // namespace uroce::tools
