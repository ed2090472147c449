// SPDX-License-Identifier: Apache-2.0
// The `uroce` command: parses flags and calls the sub-command.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "nic/base/suggestion.h"
#include "tools/capture/command.h"
#include "tools/capture/flags.h"
#include "tools/capture/output.h"
#include "tools/client/control_client.h"
#include "tools/client/launch.h"
#include "tools/client/program_kind.h"
#include "tools/doctor/doctor.h"
#include "tools/extcap/folders.h"
#include "tools/views/dump_view.h"
#include "tools/views/listing.h"
#include "tools/views/rates.h"
#include "tools/views/render.h"
#include "tools/views/screen.h"
#include "tools/views/top.h"

namespace uroce::tools {
namespace {

constexpr int kExitFailed = 1;  // It ran and failed.
constexpr int kExitUsage = 2;   // It could not start: flags, values, no daemon.
// Of `run`, as of shells and env(1).
constexpr int kExitNotRunnable = 126;
constexpr int kExitNoProgram = 127;

/// Flags of all sub-commands; each uses its own.
struct Flags {
  std::string socket;
  bool json = false;
  RenderOptions render;
  double watch_s = 0;
  CaptureOptions capture;
  uint64_t capture_count = 0;
  uint32_t flight_qpn = 0;
  std::vector<std::string> ring_limits;
  std::vector<std::string> stop_limits;
  std::vector<std::string> filter_words;
  std::vector<std::string> selections;  ///< Of listings: pid=, qpn=, device=.
  std::vector<std::string> program;     ///< Of `run`.
  std::string change_target;            ///< Of `set` and `fault clear`.
  std::vector<std::string> changes;
  bool install = false;  ///< Of `extcap`.
  bool remove = false;
  bool is_batch = false;  ///< Of `top`.
  uint64_t count = 0;     ///< Of `top` and `monitor`; 0: without end.
};

int Report(const absl::Status& status) {
  if (status.ok()) return 0;
  fprintf(stderr, "uroce: %s\n", std::string(status.message()).c_str());
  return status.code() == absl::StatusCode::kDataLoss ? kExitFailed : kExitUsage;
}

int Print(const absl::StatusOr<std::string>& text) {
  if (!text.ok()) return Report(text.status());
  if (fputs(text->c_str(), stdout) >= 0 && fflush(stdout) == 0) return 0;
  return Report(absl::DataLossError(absl::StrCat("standard output: ", strerror(errno))));
}

/// Refuses a device, or for a listing of switches a switch, that the daemon does not have.
absl::Status CheckDevice(const Flags& flags, uroce_dump_what what) {
  const bool is_switch = what == UROCE_DUMP_SWITCH;
  const std::string& wanted = flags.render.select.device;
  if (wanted.empty()) return absl::OkStatus();
  const auto json = FetchDump(ResolveSocketPath(flags.socket),
                              is_switch ? UROCE_DUMP_SWITCH : UROCE_DUMP_DEVICES);
  if (!json.ok()) return json.status();
  const absl::StatusOr<Json> dump = ParseDump(*json);
  if (!dump.ok()) return dump.status();
  std::vector<std::string> names;
  for (const Json& device : SelectObjects(*dump, {})) names.push_back(DeviceOf(device));
  if (std::find(names.begin(), names.end(), wanted) != names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("there is no ", is_switch ? "switch" : "device",
                                                 " \"", wanted, "\"", Suggestion(wanted, names),
                                                 "; there are: ", absl::StrJoin(names, ", ")));
}

absl::Status TakeSelections(Flags& flags, uroce_dump_what what) {
  for (const std::string& text : flags.selections) {
    if (absl::Status status = AddFilter(text, flags.render.select); !status.ok()) return status;
  }
  if (absl::Status status = CheckFilters(what, flags.render.select); !status.ok()) return status;
  return CheckDevice(flags, what);
}

/// Fetches a dump. qpn= selects what the queue pair uses where objects have no such number.
absl::StatusOr<std::string> FetchSelected(const Flags& flags, uroce_dump_what what) {
  const std::string socket_path = ResolveSocketPath(flags.socket);
  const std::optional<uint32_t> qpn = flags.render.select.qpn;
  absl::StatusOr<std::string> json = FetchDump(socket_path, what);
  if (!json.ok() || !qpn || !IsUsedByQueuePairs(what)) return json;
  const absl::StatusOr<std::string> queue_pairs = FetchDump(socket_path, UROCE_DUMP_QP);
  if (!queue_pairs.ok()) return queue_pairs.status();
  return OnlyUsedBy(*qpn, *queue_pairs, what, *json);
}

int PrintJson(const Flags& flags, const Listing& listing, const std::string& json) {
  return Print(RenderJson(listing, json, flags.render.select, absl::Now(), flags.watch_s != 0));
}

int PrintDump(const Flags& flags, uroce_dump_what what) {
  const absl::StatusOr<std::string> json = FetchSelected(flags, what);
  if (!json.ok()) return Report(json.status());
  return flags.json ? PrintJson(flags, ListingOf(what), *json)
                    : Print(RenderDump(what, *json, flags.render));
}

/// Sleeps for the time of --watch.
void AwaitNextLook(const Flags& flags) {
  std::this_thread::sleep_for(std::chrono::duration<double>(flags.watch_s));
  fputs(flags.json ? "" : "\n", stdout);
}

/// Prints a dump once; with --watch, again after each interval.
int WatchDump(const Flags& flags, uroce_dump_what what) {
  while (true) {
    const int result = PrintDump(flags, what);
    if (result != 0 || flags.watch_s == 0) return result;
    AwaitNextLook(flags);
  }
}

/// Prints the counters once; with --watch, then also their change in each interval. JSON has no
/// rates: its readers compute them from the numbers.
int WatchStat(const Flags& flags) {
  using Clock = std::chrono::steady_clock;
  const std::string socket_path = ResolveSocketPath(flags.socket);
  std::string before;
  Clock::time_point then;
  while (true) {
    const absl::StatusOr<std::string> json = FetchDump(socket_path, UROCE_DUMP_STAT);
    if (!json.ok()) return Report(json.status());
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - then).count();
    const int result = flags.json ? PrintJson(flags, ListingOf(UROCE_DUMP_STAT), *json)
                       : before.empty()
                           ? Print(RenderDump(UROCE_DUMP_STAT, *json, flags.render))
                           : Print(RenderRates(before, *json, seconds, flags.render.select.device));
    if (result != 0 || flags.watch_s == 0) return result;
    before = *json;
    then = now;
    AwaitNextLook(flags);
  }
}

/// Shows the programs and queue pairs with the highest rates, again after each interval.
int Top(Flags& flags) {
  using Clock = std::chrono::steady_clock;
  if (absl::Status status = TakeSelections(flags, UROCE_DUMP_QP); !status.ok())
    return Report(status);
  const std::string socket_path = ResolveSocketPath(flags.socket);
  absl::StatusOr<std::string> before = FetchDump(socket_path, UROCE_DUMP_QP);
  if (!before.ok()) return Report(before.status());
  std::unique_ptr<Screen> screen;
  if (!flags.is_batch) {
    absl::StatusOr<std::unique_ptr<Screen>> opened = Screen::Open();
    if (!opened.ok()) return Report(opened.status());
    screen = *std::move(opened);
    screen->Show("uroce top: q ends it");
  }
  Clock::time_point then = Clock::now();
  for (uint64_t shown = 0; flags.count == 0 || shown < flags.count; ++shown) {
    if (screen == nullptr) {
      std::this_thread::sleep_for(std::chrono::duration<double>(flags.watch_s));
    } else if (!screen->Await(flags.watch_s)) {
      return 0;
    }
    absl::StatusOr<std::string> after = FetchDump(socket_path, UROCE_DUMP_QP);
    const Clock::time_point now = Clock::now();
    const absl::StatusOr<std::string> text =
        after.ok() ? RenderTop(*before, *after, std::chrono::duration<double>(now - then).count(),
                               flags.render.select)
                   : after.status();
    if (!text.ok()) screen.reset();  // The line that says why comes after the screen.
    if (!text.ok()) return Report(text.status());
    if (screen != nullptr) screen->Show(*text);
    if (const int result = screen == nullptr ? Print(*text + "\n") : 0; result != 0) return result;
    before = *std::move(after);
    then = now;
  }
  return 0;
}

/// Whether `monitor` shows an event: one that is selected, or the news that some were lost.
bool IsShown(const std::string& line, const Selection& select) {
  const absl::StatusOr<Json> event = ParseDump(line);
  if (!event.ok() || !event->is_object()) return false;
  return event->value("event", "") == "lost" || IsSelected(*event, select);
}

/// Prints events until the daemon ends, or as many as are wanted.
int Follow(Flags& flags) {
  if (absl::Status status = TakeSelections(flags, UROCE_DUMP_QP); !status.ok())
    return Report(status);
  int result = 0;
  uint64_t shown = 0;
  const auto take = [&](const std::string& line) {
    if (!IsShown(line, flags.render.select)) return true;
    result = Print(line + "\n");
    return result == 0 && ++shown != flags.count;
  };
  const absl::Status status = FollowEvents(ResolveSocketPath(flags.socket), take);
  return result != 0 ? result : Report(status);
}

int PrintFaults(const Flags& flags) {
  if (const absl::Status status = CheckDevice(flags, UROCE_DUMP_STAT); !status.ok())
    return Report(status);
  const absl::StatusOr<std::string> json =
      FetchDump(ResolveSocketPath(flags.socket), UROCE_DUMP_STAT);
  if (!json.ok()) return Report(json.status());
  if (!flags.json) return Print(RenderFaults(*json, flags.render.select.device));
  const absl::StatusOr<std::string> faults = FaultsOf(*json);
  return faults.ok() ? PrintJson(flags, kFaults, *faults) : Report(faults.status());
}

int Change(const Flags& flags, uroce_change_what what) {
  return Report(RequestChange(ResolveSocketPath(flags.socket), what, flags.change_target,
                              absl::StrJoin(flags.changes, ",")));
}

int Doctor(const Flags& flags) {
  const Findings findings = Examine(ResolveSocketPath(flags.socket));
  const int printed = Print(flags.json ? FindingsToJson(findings) : RenderFindings(findings));
  if (printed != 0) return printed;
  return CountOf(findings, Level::kProblem) == 0 ? 0 : kExitFailed;
}

int InstallExtcapLink() {
  const absl::StatusOr<ExtcapLink> link = InstallExtcap();
  if (!link.ok()) return Report(link.status());
  if (!link->hint.empty()) fprintf(stderr, "%s\n", link->hint.c_str());
  const absl::StatusOr<std::string> dissector = InstallDissector();
  if (!dissector.ok()) return Report(dissector.status());
  return Print(absl::StrCat(link->path, "\n", *dissector, "\n"));
}

int Extcap(const Flags& flags) {
  if (flags.install) return InstallExtcapLink();
  const absl::StatusOr<std::string> place = flags.remove ? RemoveExtcap() : InstalledExtcap();
  if (!place.ok()) return Report(place.status());
  if (!place->empty()) return Print(*place + "\n");
  return Report(absl::DataLossError("extcap: Wireshark does not find uroce-extcap, see --install"));
}

int PrintEnvironment(const Flags& flags) {
  const auto environment = MakeLaunchEnvironment(ResolveSocketPath(flags.socket));
  if (!environment.ok()) return Report(environment.status());
  return Print(ToShellExports(*environment));
}

/// The index of the first word, from `start` on, that is neither a flag nor the value of --socket.
size_t SkipFlags(const std::vector<std::string>& arguments, size_t start) {
  size_t i = start;
  while (i < arguments.size() && arguments[i].starts_with("-") && arguments[i] != "--") {
    i += arguments[i] == "--socket" ? 2 : 1;
  }
  return std::min(i, arguments.size());
}

/// Removes the program of `uroce run` and its arguments: this tool must not parse them.
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

int RunProgram(const Flags& flags, const std::vector<std::string>& command) {
  if (command.empty()) {
    return Report(absl::InvalidArgumentError("run: no program, try: uroce run -- ibv_devinfo"));
  }
  const std::string socket_path = ResolveSocketPath(flags.socket);
  const auto environment = MakeLaunchEnvironment(socket_path);
  if (!environment.ok()) return Report(environment.status());
  if (absl::Status status = CheckTakesPreload(command.front()); !status.ok()) {
    Report(status);
    return kExitNotRunnable;
  }
  // Without a daemon the program would only report that it finds no device.
  if (const auto probe = ConnectToDaemon(socket_path); !probe.ok()) return Report(probe.status());
  const absl::Status status = Exec(*environment, command);
  Report(status);
  return absl::IsNotFound(status) ? kExitNoProgram : kExitNotRunnable;
}

/// Accepts the flag before the sub-command and after it: people try both.
void AddSocketFlag(CLI::App& app, Flags& flags) {
  app.add_option("--socket", flags.socket, "Control socket of the daemon (or UROCE_SOCKET)");
}

void AddWatch(CLI::App& command, Flags& flags) {
  command
      .add_option("--watch", flags.watch_s,
                  "Every so many seconds, print again; stat: changes and rates")
      ->check(CLI::Validator(
          [](std::string& text) {
            double seconds = 0;
            const bool is_good =
                absl::SimpleAtod(text, &seconds) && seconds >= 0.1 && seconds <= 3600;
            return is_good ? std::string() : text + " is no number of seconds from 0.1 to 3600";
          },
          ""));
}

CLI::App* AddListing(CLI::App& app, Flags& flags, int& result, const char* name,
                     const char* description, uroce_dump_what what) {
  CLI::App* command = app.add_subcommand(name, description);
  AddSocketFlag(*command, flags);
  command->add_flag("--json", flags.json, "Print JSON; with --watch one line each time (NDJSON)");
  command->add_option("-d,--device", flags.render.select.device, "Only this device");
  AddWatch(*command, flags);
  command->add_option("FILTER", flags.selections, FiltersText(what));
  command->callback([&flags, &result, what, command] {
    if (!command->get_subcommands().empty()) return;
    const absl::Status status = TakeSelections(flags, what);
    result = !status.ok()              ? Report(status)
             : what == UROCE_DUMP_STAT ? WatchStat(flags)
                                       : WatchDump(flags, what);
  });
  return command;
}

int Capture(Flags& flags) {
  CaptureOptions& options = flags.capture;
  for (const std::string& word : flags.filter_words) options.filter += word + " ";
  if (!options.filter.empty()) options.filter.pop_back();
  options.limits.packets = flags.capture_count;
  for (const std::string& text : flags.ring_limits) {
    if (absl::Status status = AddLimit("-b", text, options.file_limits); !status.ok()) {
      return Report(status);
    }
  }
  for (const std::string& text : flags.stop_limits) {
    if (absl::Status status = AddLimit("-a", text, options.limits); !status.ok()) {
      return Report(status);
    }
  }
  return Report(RunCapture(ResolveSocketPath(flags.socket), options));
}

int Flight(const Flags& flags) {
  const absl::StatusOr<std::string> bytes =
      FetchFlight(ResolveSocketPath(flags.socket), flags.flight_qpn);
  if (!bytes.ok()) return Report(bytes.status());
  absl::StatusOr<CaptureOutput> output = CaptureOutput::Open(flags.capture.file, false, 0);
  if (!output.ok()) return Report(output.status());
  const volatile sig_atomic_t stopping = 0;
  std::span<const uint8_t> part{reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()};
  if (output->Write({&part, 1}, stopping) != WriteResult::kFailed) return 0;
  return Report(absl::DataLossError("write " + output->name() + ": " + strerror(errno)));
}

void AddFlight(CLI::App& app, Flags& flags, int& result) {
  CLI::App* command = app.add_subcommand(
      "flight", "Write the newest packets of a queue pair (uroced --flight-recorder)");
  AddSocketFlag(*command, flags);
  command->add_option("QPN", flags.flight_qpn, "Its number, as `uroce qp` shows it")
      ->required()
      ->check(CLI::Range(1, 0xffffff));
  command->add_option("-w,--write", flags.capture.file, "File to write; - is stdout")->required();
  command->callback([&flags, &result] { result = Flight(flags); });
}

void AddCapture(CLI::App& app, Flags& flags, int& result) {
  CLI::App* command =
      app.add_subcommand("capture", "Write frames, both directions, to pcapng files, live");
  AddSocketFlag(*command, flags);
  command->add_option("-w,--write", flags.capture.file, "File to write; - is stdout")->required();
  command->add_option("-d,--device", flags.capture.device, "Only this device");
  AddCaptureFlags(*command, flags.capture);
  command->add_option("-c,--count", flags.capture_count, "End after so many frames")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("-a,--autostop", flags.stop_limits,
                   "End after duration:SECONDS, packets:N, filesize:KB or files:N")
      ->allow_extra_args(false);
  command
      ->add_option("-b,--ring-buffer", flags.ring_limits,
                   "Go on to a new file after filesize:KB, duration:SECONDS or packets:N; keep "
                   "the newest files:N (may be given several times)")
      ->allow_extra_args(false);
  command->add_option("FILTER", flags.filter_words,
                      "libpcap expression (pcap-filter(7)), e.g. udp port 4791 and host 10.0.0.1");
  command->callback([&flags, &result] { result = Capture(flags); });
}

void AddLaunchers(CLI::App& app, Flags& flags, int& result) {
  CLI::App* run = app.add_subcommand(
      "run", "Run a verbs program on the daemon's devices: uroce run -- PROGRAM [ARGUMENT...]");
  AddSocketFlag(*run, flags);
  run->footer("Example: uroce run -- ibv_rc_pingpong -d uroce0 -g 1");
  run->callback([&flags, &result] { result = RunProgram(flags, flags.program); });
  CLI::App* env =
      app.add_subcommand("env", "Print the same environment for a shell: eval \"$(uroce env)\"");
  AddSocketFlag(*env, flags);
  env->callback([&flags, &result] { result = PrintEnvironment(flags); });
}

void AddDoctor(CLI::App& app, Flags& flags, int& result) {
  CLI::App* doctor = app.add_subcommand(
      "doctor", "What is missing on this machine, and the commands that mend it");
  AddSocketFlag(*doctor, flags);
  doctor->add_flag("--json", flags.json, "Print JSON");
  doctor->footer("Exit status: 0 without a problem, 1 with one.");
  doctor->callback([&flags, &result] { result = Doctor(flags); });
}

void AddExtcap(CLI::App& app, Flags& flags, int& result) {
  CLI::App* extcap = app.add_subcommand(
      "extcap", "Say where Wireshark finds the program that lists uroce's devices");
  CLI::Option* install = extcap->add_flag(
      "--install", flags.install, "Link it and the dissector uroce.lua into Wireshark's folders");
  extcap->add_flag("--remove", flags.remove, "Remove these links")->excludes(install);
  extcap->callback([&flags, &result] { result = Extcap(flags); });
}

void AddWatching(CLI::App& app, Flags& flags, int& result) {
  CLI::App* top = app.add_subcommand(
      "top", "Programs and queue pairs with the highest rates, on the whole terminal; q ends it");
  AddSocketFlag(*top, flags);
  top->add_flag("--batch", flags.is_batch, "Print one table after the other instead");
  AddWatch(*top, flags);
  top->add_option("-c,--count", flags.count, "End after so many tables")
      ->check(CLI::PositiveNumber);
  top->add_option("FILTER", flags.selections, "Only device=NAME, pid=NUMBER, qpn=NUMBER");
  top->footer("Example: uroce top --batch --watch 0.5 device=uroce0");
  top->callback([&flags, &result] {
    if (flags.watch_s == 0) flags.watch_s = 1;
    result = Top(flags);
  });
  CLI::App* monitor = app.add_subcommand(
      "monitor", "Events as they come, one JSON object a line: programs, queue pairs, links, GIDs");
  AddSocketFlag(*monitor, flags);
  monitor->add_option("-c,--count", flags.count, "End after so many events")
      ->check(CLI::PositiveNumber);
  monitor->add_option("FILTER", flags.selections, "Only device=NAME, pid=NUMBER, qpn=NUMBER");
  monitor->footer("Example: uroce monitor device=uroce0 | jq -r .event");
  monitor->callback([&flags, &result] { result = Follow(flags); });
}

void AddListings(CLI::App& app, Flags& flags, int& result) {
  AddListing(app, flags, result, "devices", "Devices with their ports and GIDs",
             UROCE_DUMP_DEVICES);
  CLI::App* stat =
      AddListing(app, flags, result, "stat", "Counters of the devices", UROCE_DUMP_STAT);
  stat->add_flag("-a,--all", flags.render.all, "Counters that are zero, too");
  stat->add_flag("--workers", flags.render.workers, "What each worker does");
  AddListing(app, flags, result, "qp", "Queue pairs", UROCE_DUMP_QP);
  AddListing(app, flags, result, "cq", "Completion queues", UROCE_DUMP_CQ);
  AddListing(app, flags, result, "mr", "Memory regions", UROCE_DUMP_MR);
  AddListing(app, flags, result, "srq", "Shared receive queues", UROCE_DUMP_SRQ);
  AddListing(app, flags, result, "pd", "Protection domains", UROCE_DUMP_PD);
  AddListing(app, flags, result, "ctx", "Contexts: devices that programs have open",
             UROCE_DUMP_CTX);
  AddListing(app, flags, result, "peers", "NICs that queue pairs are connected to",
             UROCE_DUMP_PEERS);
  AddListing(app, flags, result, "cm", "Connections of librdmacm programs", UROCE_DUMP_CM);
}

/// Adds the command `name set TARGET KEY=VALUE...`.
void AddChange(CLI::App& command, Flags& flags, int& result, uroce_change_what what,
               const char* target, const std::string& help) {
  CLI::App* set = command.add_subcommand("set", help);
  AddSocketFlag(*set, flags);
  set->add_option(target, flags.change_target)->required();
  set->add_option("SETTING", flags.changes, "KEY=VALUE")->required();
  set->callback([&flags, &result, what] { result = Change(flags, what); });
}

void AddCongestion(CLI::App& app, Flags& flags, int& result) {
  CLI::App* cc = AddListing(app, flags, result, "cc",
                            "Congestion control: rates, windows, round trips, CNPs of each flow",
                            UROCE_DUMP_CC);
  AddListing(*cc, flags, result, "parameters", "Profile and parameters of each NIC",
             UROCE_DUMP_CC_SETTINGS);
  AddChange(*cc, flags, result, UROCE_CHANGE_CC, "NIC",
            "Change profile or parameters of a NIC; connections that are there keep their profile");
  cc->footer(
      "Examples: uroce cc --watch 1\n"
      "          uroce cc set uroce0 profile=dcqcn-mlx rpg_ai_rate=20");
}

void AddNetwork(CLI::App& app, Flags& flags, int& result) {
  CLI::App* switches = AddListing(app, flags, result, "switch",
                                  "Switches inside (uroced --switch): ports, queues, marks, drops",
                                  UROCE_DUMP_SWITCH);
  AddChange(
      *switches, flags, result, UROCE_CHANGE_SWITCH, "SWITCH|PORT|NIC",
      "Change a switch (rate, delay, buffer, ecn, pfc), or a port such as sw0:3, or that of a "
      "NIC (rate, delay, link=up|down)");
  switches->footer(
      "Examples: uroce switch set sw0 ecn=100K:400K:20% pfc=off\n"
      "          uroce switch set uroce3 link=down");
}

CLI::App* AddFaultListing(CLI::App& app, Flags& flags, int& result, const char* name,
                          const char* description) {
  CLI::App* command = app.add_subcommand(name, description);
  AddSocketFlag(*command, flags);
  command->add_flag("--json", flags.json, "Print JSON");
  command->add_option("-d,--device", flags.render.select.device, "Only this device");
  command->callback([&flags, &result, command] {
    if (command->get_subcommands().empty()) result = PrintFaults(flags);
  });
  return command;
}

void AddFaults(CLI::App& app, Flags& flags, int& result) {
  CLI::App* fault =
      AddFaultListing(app, flags, result, "fault", "Faults that NICs make, and what they did");
  AddFaultListing(*fault, flags, result, "show", "List them, as without a command");
  AddChange(
      *fault, flags, result, UROCE_CHANGE_FAULT, "NIC",
      "Have a NIC make these faults and no others, as uroced --fault: rates (drop, duplicate, "
      "reorder, corrupt, ce, delay, dir, seed), then rules, each rule=ACTION qpn= opcode= "
      "dir= nth= every= count=; off: none");
  CLI::App* clear =
      fault->add_subcommand("clear", "End the faults of a NIC; without a name, of all NICs");
  AddSocketFlag(*clear, flags);
  clear->add_option("NIC", flags.change_target);
  clear->callback([&flags, &result] {
    flags.changes = {"off"};
    result = Change(flags, UROCE_CHANGE_FAULT);
  });
  fault->footer(
      "Examples: uroce fault set uroce0 drop=0.01 delay=10us\n"
      "          uroce fault set uroce0 rule=drop opcode=WRITE_MIDDLE dir=tx nth=3\n"
      "          uroce fault clear uroce0");
}

void AddConfig(CLI::App& app, Flags& flags, int& result) {
  CLI::App* config = app.add_subcommand("config", "The daemon's settings, while it runs");
  config->require_subcommand(1);
  AddSocketFlag(*config, flags);
  CLI::App* show = config->add_subcommand(
      "show", "Print the settings that hold, as a file that uroced --config takes");
  AddSocketFlag(*show, flags);
  show->add_flag("--json", flags.json, "Print JSON");
  show->callback([&flags, &result] { result = PrintDump(flags, UROCE_DUMP_CONFIG); });
  CLI::App* reload = config->add_subcommand(
      "reload", "Have the daemon read its file anew; what it says holds, all of it or nothing");
  AddSocketFlag(*reload, flags);
  reload->callback([&flags, &result] { result = Change(flags, UROCE_CHANGE_RELOAD); });
  CLI::App* set = config->add_subcommand(
      "set", "Change settings until the next reload: log_level, and most limits");
  AddSocketFlag(*set, flags);
  set->add_option("SETTING", flags.changes, "KEY=VALUE")->required();
  set->callback([&flags, &result] { result = Change(flags, UROCE_CHANGE_CONFIG); });
  config->footer(
      "Examples: uroce config show > now.toml\n"
      "          uroce config set log_level=debug max_qp_per_user=4096\n"
      "          uroce config reload");
}

void AddPorts(CLI::App& app, Flags& flags, int& result) {
  CLI::App* port =
      app.add_subcommand("port", "Ports and their settings, while programs use other ports");
  port->require_subcommand(1);
  AddSocketFlag(*port, flags);
  AddChange(*port, flags, result, UROCE_CHANGE_PORT, "NIC",
            "Change what --port says of it: rate=BPS|off, cc=PROFILE, cc.PRIORITY=PROFILE, "
            "cc.PARAMETER=NUMBER; until the next reload");
  CLI::App* add = port->add_subcommand(
      "add", "Add a port by what uroced --port takes: udp=, iface=, or dev=net_memif0");
  AddSocketFlag(*add, flags);
  add->add_option("SETTING", flags.changes, "KEY=VALUE")->required();
  add->callback([&flags, &result] { result = Change(flags, UROCE_CHANGE_ADD_PORT); });
  CLI::App* remove = port->add_subcommand(
      "remove", "Remove a port of --port or port add; its programs get IBV_EVENT_DEVICE_FATAL");
  AddSocketFlag(*remove, flags);
  remove->add_option("NIC", flags.change_target)->required();
  remove->callback([&flags, &result] { result = Change(flags, UROCE_CHANGE_REMOVE_PORT); });
  port->footer(
      "Examples: uroce port add name=uroce1,udp=eth1\n"
      "          uroce port set uroce1 rate=5G cc=delay\n"
      "          uroce port remove uroce1");
}

int Main(int argc, char** argv) {
  Flags flags;
  int result = 0;
  CLI::App app("uroce: run programs on a software RoCEv2 NIC and look at it", "uroce");
  app.set_version_flag("--version", "uroce " UROCE_VERSION);
  app.require_subcommand(0, 1);  // Words of a filter, "udp port 4791", begin no other command.
  AddSocketFlag(app, flags);
  AddLaunchers(app, flags, result);
  AddListings(app, flags, result);
  AddWatching(app, flags, result);
  AddCongestion(app, flags, result);
  AddNetwork(app, flags, result);
  AddFaults(app, flags, result);
  AddConfig(app, flags, result);
  AddPorts(app, flags, result);
  AddCapture(app, flags, result);
  AddFlight(app, flags, result);
  AddExtcap(app, flags, result);
  AddDoctor(app, flags, result);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  flags.program = TakeProgram(arguments);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the end.
  try {
    app.parse(arguments);
    if (app.get_subcommands().empty()) throw CLI::RequiredError("A subcommand");
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      std::ostringstream text;
      app.exit(error, text, text);
      return Print(text.str());
    }
    fprintf(stderr, "uroce: %s%s (see uroce --help)\n", error.what(), SuggestionFor(app).c_str());
    return kExitUsage;
  }
  return result;
}

}  // namespace
}  // namespace uroce::tools

int main(int argc, char** argv) { return uroce::tools::Main(argc, argv); }
