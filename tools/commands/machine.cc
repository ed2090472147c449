// SPDX-License-Identifier: Apache-2.0
// Sub-commands that need no daemon: `uroce run` and `uroce env` start programs on its devices,
// `uroce doctor` and `uroce extcap` look at this machine.
#include "tools/commands/commands.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tools/client/command_line.h"
#include "tools/client/control_client.h"
#include "tools/client/launch.h"
#include "tools/client/private_daemon.h"
#include "tools/doctor/doctor.h"
#include "tools/extcap/extcap.h"
#include "tools/views/listing.h"

namespace uroce::tools {

// ---- run and env ----

namespace {

constexpr char kPrivate[] = "--private";
constexpr char kOnly[] = "--only";

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

int RunOnDaemon(const std::string& socket_path, const std::vector<std::string>& program) {
  const auto environment = MakeLaunchEnvironment(socket_path);
  if (!environment.ok()) return Report(environment.status());
  // Without a daemon the program would only report that it finds no device.
  if (const auto probe = ConnectToDaemon(socket_path); !probe.ok()) return Report(probe.status());
  const absl::Status status = Exec(*environment, program);
  Report(status);
  return ExitStatusOfExec(status);
}

int RunProgram(const RunWords& words, const Invocation& invocation) {
  if (words.program.empty()) {
    return Report(absl::InvalidArgumentError("run: no program, try: uroce run -- ibv_devinfo"));
  }
  if (absl::Status status = CheckTakesPreload(words.program.front()); !status.ok()) {
    Report(status);
    return kExitNotRunnable;
  }
  // Most programs link libibverbs, and are served without the library in front of it.
  const absl::StatusOr<std::string> library = FindLibrary();
  if (library.ok()) {
    if (absl::Status status = CheckFront(*library); !status.ok()) Report(status);
  }
  if (!words.is_private) return RunOnDaemon(invocation.SocketPath(), words.program);
  if (!invocation.socket.empty()) {
    return Report(absl::InvalidArgumentError("run: --private has its own socket"));
  }
  const auto status = RunWithPrivateDaemon(words.daemon_options, words.program);
  return status.ok() ? *status : Report(status.status());
}

/// Whether a word before the program is for this tool, in a private run too.
bool IsOwnFlag(const std::string& word) {
  return word == "-h" || word == "--help" || word == kPrivate || word == kOnly ||
         word.starts_with("--socket=");
}

/// Moves the words from `first` on that are not for this tool to `options`.
void TakeOptions(std::vector<std::string>& arguments, size_t first,
                 std::vector<std::string>& options) {
  std::vector<std::string> own(arguments.begin(),
                               arguments.begin() + static_cast<ptrdiff_t>(first));
  for (size_t i = first; i < arguments.size(); ++i) {
    const bool has_value = arguments[i] == "--socket" && i + 1 < arguments.size();
    const bool is_own = has_value || IsOwnFlag(arguments[i]);
    (is_own ? own : options).push_back(arguments[i]);
    if (has_value) own.push_back(arguments[++i]);
  }
  arguments = std::move(own);
}

}  // namespace

RunWords TakeProgram(std::vector<std::string>& arguments) {
  RunWords words;
  const size_t command = SkipFlags(arguments, 0);
  if (command == arguments.size() || arguments[command] != "run") return words;
  size_t first = SkipFlags(arguments, command + 1);
  const auto place = [&](size_t index) {
    return arguments.begin() + static_cast<ptrdiff_t>(index);
  };
  words.is_private = std::find(place(command + 1), place(first), kPrivate) != place(first);
  if (words.is_private) {
    // Options of uroced have values, which only "--" separates from the program.
    const auto dashes = std::find(place(first), arguments.end(), "--");
    if (dashes != arguments.end()) first = static_cast<size_t>(dashes - arguments.begin());
  }
  words.program.assign(place(first), arguments.end());
  arguments.resize(first);
  if (!words.program.empty() && words.program.front() == "--") {
    words.program.erase(words.program.begin());
  }
  if (words.is_private) TakeOptions(arguments, command + 1, words.daemon_options);
  return words;
}

void AddLaunchers(const Command& app, Invocation& invocation, const RunWords& words) {
  const Command run = app.AddCommand(
      "run", "Run a verbs program on the daemon's devices: uroce run -- PROGRAM [ARGUMENT...]");
  AddSocketFlag(run, invocation);
  const auto is_private = std::make_shared<bool>(false);
  run.AddFlag(kPrivate, *is_private,
              "With its own uroced, which ends with the program: "
              "uroce run --private [OPTION-OF-UROCED...] -- PROGRAM");
  const auto is_only = std::make_shared<bool>(false);
  run.AddFlag(kOnly, *is_only, "Hide the machine's other RDMA devices from the program");
  run.SetFooter(
      "Examples: uroce run -- ibv_rc_pingpong -d uroce0 -g 1\n"
      "          uroce run --private -- ibv_devinfo\n"
      "          uroce run --private --switch ports=4,rate=10G -- ./run-tests");
  run.OnChosen([&words, &invocation, is_private, is_only] {
    if (*is_only) setenv("UROCE_ONLY", "1", 1);
    invocation.exit_status = RunProgram(words, invocation);
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
