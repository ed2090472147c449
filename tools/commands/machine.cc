// SPDX-License-Identifier: Apache-2.0
// Sub-commands that need no daemon: `uroce run` and `uroce env` start programs on its devices,
// `uroce doctor` and `uroce extcap` look at this machine.
#include "tools/commands/commands.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tools/client/command_line.h"
#include "tools/client/control_client.h"
#include "tools/client/launch.h"
#include "tools/doctor/doctor.h"
#include "tools/extcap/extcap.h"
#include "tools/views/listing.h"

namespace uroce::tools {

// ---- run and env ----

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
  // Most programs link libibverbs, and are served without the library in front of it.
  if (absl::Status status = CheckFront(environment->library); !status.ok()) Report(status);
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

void AddLaunchers(const Command& app, Invocation& invocation,
                  const std::vector<std::string>& program) {
  const Command run = app.AddCommand(
      "run", "Run a verbs program on the daemon's devices: uroce run -- PROGRAM [ARGUMENT...]");
  AddSocketFlag(run, invocation);
  run.SetFooter("Example: uroce run -- ibv_rc_pingpong -d uroce0 -g 1");
  run.OnChosen([&program, &invocation] {
    invocation.exit_status = RunProgram(invocation.SocketPath(), program);
  });
  const Command env = app.AddCommand(
      "env", "Print the environment of uroce run for a shell: eval \"$(uroce env)\"");
  AddSocketFlag(env, invocation);
  env.OnChosen(
      [&invocation] { invocation.exit_status = PrintEnvironment(invocation.SocketPath()); });
}

// ---- doctor and extcap ----

namespace {

int Doctor(const std::string& socket_path, bool json) {
  const Findings findings = Examine(socket_path);
  const int printed =
      Print(json ? RenderJson(kDoctor, FindingsToJson(findings), {}, absl::Now(), false)
                 : RenderFindings(findings));
  if (printed != 0) return printed;
  return CountOf(findings, Level::kProblem) == 0 ? 0 : kExitFailed;
}

struct ExtcapFlags {
  bool install = false;
  bool remove = false;
};

int InstallExtcapLink() {
  const absl::StatusOr<ExtcapLink> link = InstallExtcap();
  if (!link.ok()) return Report(link.status());
  if (!link->hint.empty()) fprintf(stderr, "%s\n", link->hint.c_str());
  const absl::StatusOr<std::string> dissector = InstallDissector();
  if (!dissector.ok()) return Report(dissector.status());
  return Print(absl::StrCat(link->path, "\n", *dissector, "\n"));
}

int Extcap(const ExtcapFlags& flags) {
  if (flags.install) return InstallExtcapLink();
  const absl::StatusOr<std::string> place = flags.remove ? RemoveExtcap() : InstalledExtcap();
  if (!place.ok()) return Report(place.status());
  if (!place->empty()) return Print(*place + "\n");
  return Report(absl::DataLossError("extcap: Wireshark does not find uroce-extcap, see --install"));
}

}  // namespace

void AddExtcap(const Command& app, Invocation& invocation) {
  const auto flags = std::make_shared<ExtcapFlags>();
  const Command extcap =
      app.AddCommand("extcap", "Say where Wireshark finds the program that lists uroce's devices");
  const Flag install = extcap.AddFlag(
      "--install", flags->install, "Link it and the dissector uroce.lua into Wireshark's folders");
  extcap.AddFlag("--remove", flags->remove, "Remove these links").Exclude(install);
  extcap.OnChosen([flags, &invocation] { invocation.exit_status = Extcap(*flags); });
}

void AddDoctor(const Command& app, Invocation& invocation) {
  const auto json = std::make_shared<bool>(false);
  const Command doctor =
      app.AddCommand("doctor", "What is missing on this machine, and the commands that mend it");
  AddSocketFlag(doctor, invocation);
  doctor.AddFlag("--json", *json, "Print JSON");
  doctor.SetFooter("Exit status: 0 without a problem, 1 with one.");
  doctor.OnChosen(
      [json, &invocation] { invocation.exit_status = Doctor(invocation.SocketPath(), *json); });
}

}  // namespace uroce::tools
