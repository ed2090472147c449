// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/launchers.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "tools/client/control_client.h"
#include "tools/client/launch.h"
#include "tools/client/program_kind.h"

namespace uroce::tools {
namespace {

// As of shells and env(1).
constexpr int kExitNotRunnable = 126;
constexpr int kExitNoProgram = 127;

/// The index of the first word, from `start` on, that is neither a flag nor the value of --socket.
size_t SkipFlags(const std::vector<std::string>& arguments, size_t start) {
  size_t i = start;
  while (i < arguments.size() && arguments[i].starts_with("-") && arguments[i] != "--") {
    i += arguments[i] == "--socket" ? 2 : 1;
  }
  return std::min(i, arguments.size());
}

int PrintEnvironment(const std::string& socket_path) {
  const auto environment = MakeLaunchEnvironment(socket_path);
  if (!environment.ok()) return Report(environment.status());
  return Print(ToShellExports(*environment));
}

int RunProgram(const std::string& socket_path, const std::vector<std::string>& program) {
  if (program.empty()) {
    return Report(absl::InvalidArgumentError("run: no program, try: uroce run -- ibv_devinfo"));
  }
  const auto environment = MakeLaunchEnvironment(socket_path);
  if (!environment.ok()) return Report(environment.status());
  if (absl::Status status = CheckTakesPreload(program.front()); !status.ok()) {
    Report(status);
    return kExitNotRunnable;
  }
  // Without a daemon the program would only report that it finds no device.
  if (const auto probe = ConnectToDaemon(socket_path); !probe.ok()) return Report(probe.status());
  const absl::Status status = Exec(*environment, program);
  Report(status);
  return absl::IsNotFound(status) ? kExitNoProgram : kExitNotRunnable;
}

}  // namespace

std::vector<std::string> TakeProgram(std::vector<std::string>& arguments) {
  const size_t command = SkipFlags(arguments, 0);
  if (command == arguments.size() || arguments[command] != "run") return {};
  const size_t first = SkipFlags(arguments, command + 1);
  std::vector<std::string> program(arguments.begin() + static_cast<ptrdiff_t>(first),
                                   arguments.end());
  arguments.resize(first);
  if (!program.empty() && program.front() == "--") program.erase(program.begin());
  return program;
}

void AddLaunchers(CLI::App& app, Invocation& invocation, const std::vector<std::string>& program) {
  CLI::App* run = app.add_subcommand(
      "run", "Run a verbs program on the daemon's devices: uroce run -- PROGRAM [ARGUMENT...]");
  AddSocketFlag(*run, invocation);
  run->footer("Example: uroce run -- ibv_rc_pingpong -d uroce0 -g 1");
  run->callback([&program, &invocation] {
    invocation.exit_status = RunProgram(invocation.SocketPath(), program);
  });
  CLI::App* env = app.add_subcommand(
      "env", "Print the environment of uroce run for a shell: eval \"$(uroce env)\"");
  AddSocketFlag(*env, invocation);
  env->callback(
      [&invocation] { invocation.exit_status = PrintEnvironment(invocation.SocketPath()); });
}

}  // namespace uroce::tools
