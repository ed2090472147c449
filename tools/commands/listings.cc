// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/listings.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "pipeline/os/suggestion.h"
#include "tools/client/command_line.h"
#include "tools/client/control_client.h"
#include "tools/commands/commands.h"
#include "tools/views/dump_view.h"
#include "tools/views/listing.h"
#include "tools/views/rates.h"
#include "tools/views/stat_page.h"
#include "tools/views/terminal.h"

namespace uroce::tools {

// ---- Listings ----

namespace {

/// Fetches a dump. qpn= selects what the queue pair uses where objects have no such number.
absl::StatusOr<std::string> FetchSelected(DumpClient& daemon, const Selection& select,
                                          uroce_dump_what what) {
  absl::StatusOr<std::string> json = daemon.Fetch(what);
  if (!json.ok() || !select.qpn || !IsUsedByQueuePairs(what)) return json;
  const absl::StatusOr<std::string> queue_pairs = daemon.Fetch(UROCE_DUMP_QP);
  if (!queue_pairs.ok()) return queue_pairs.status();
  return OnlyUsedBy(*select.qpn, *queue_pairs, what, *json);
}

int PrintJson(const ListingFlags& flags, uroce_dump_what what, const std::string& json) {
  return Print(
      RenderJson(ListingOf(what), json, flags.render.select, absl::Now(), flags.watch_s != 0));
}

/// Between one look of --watch and the next.
void PrintGap(const ListingFlags& flags) {
  if (!flags.json) fputs("\n", stdout);
}

int PrintDumpOf(DumpClient& daemon, const ListingFlags& flags, uroce_dump_what what,
                bool is_again) {
  const absl::StatusOr<std::string> json = FetchSelected(daemon, flags.render.select, what);
  if (!json.ok()) return Report(json.status());
  if (is_again) PrintGap(flags);
  return flags.json ? PrintJson(flags, what, *json) : Print(RenderDump(what, *json, flags.render));
}

/// Prints a dump once; with --watch, again after each interval.
int WatchDump(const std::string& socket_path, const ListingFlags& flags, uroce_dump_what what) {
  DumpClient daemon(socket_path);
  for (bool is_again = false;; is_again = true) {
    const int result = PrintDumpOf(daemon, flags, what, is_again);
    if (result != 0 || flags.watch_s == 0) return result;
    daemon.Await(flags.watch_s);
  }
}

/// Prints the counters once; with --watch, then also their change in each interval. JSON has no
/// rates: its readers compute them from the numbers.
int WatchStat(const std::string& socket_path, const ListingFlags& flags) {
  using Clock = std::chrono::steady_clock;
  DumpClient daemon(socket_path);
  std::string before;
  Clock::time_point then;
  while (true) {
    const absl::StatusOr<std::string> json = daemon.Fetch(UROCE_DUMP_STAT);
    if (!json.ok()) return Report(json.status());
    if (!before.empty()) PrintGap(flags);
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - then).count();
    const int result = flags.json ? PrintJson(flags, UROCE_DUMP_STAT, *json)
                       : before.empty()
                           ? Print(RenderDump(UROCE_DUMP_STAT, *json, flags.render))
                           : Print(RenderRates(before, *json, seconds, flags.render.select.device));
    if (result != 0 || flags.watch_s == 0) return result;
    before = *json;
    then = now;
    daemon.Await(flags.watch_s);
  }
}

/// Writes a page of the counters once; with --watch, again after each look.
int WriteStatPages(const std::string& socket_path, const ListingFlags& flags) {
  DumpClient daemon(socket_path);
  StatPage page(flags.html, flags.library);
  while (true) {
    const absl::StatusOr<std::string> json = daemon.Fetch(UROCE_DUMP_STAT);
    if (!json.ok()) return Report(json.status());
    const absl::Time now = absl::Now();
    const absl::StatusOr<std::string> line =
        RenderJson(ListingOf(UROCE_DUMP_STAT), *json, flags.render.select, now, /*is_line=*/true);
    if (!line.ok()) return Report(line.status());
    if (absl::Status status = page.Add(*line, now); !status.ok()) return Report(status);
    if (flags.watch_s == 0) return 0;
    daemon.Await(flags.watch_s);
  }
}

int List(const std::string& socket_path, ListingFlags& flags, uroce_dump_what what) {
  const absl::Status status = TakeFilters(socket_path, flags.filters, what, flags.render.select);
  if (!status.ok()) return Report(status);
  if (!flags.html.empty()) {
    if (!flags.json && !flags.render.workers && !flags.render.all) {
      return WriteStatPages(socket_path, flags);
    }
    return Report(absl::InvalidArgumentError("--html excludes --json, --workers and --all"));
  }
  return what == UROCE_DUMP_STAT ? WatchStat(socket_path, flags)
                                 : WatchDump(socket_path, flags, what);
}

}  // namespace

absl::Status CheckDevice(const std::string& socket_path, const std::string& device,
                         uroce_dump_what what) {
  const bool is_switch = what == UROCE_DUMP_SWITCH;
  if (device.empty()) return absl::OkStatus();
  const auto json = FetchDump(socket_path, is_switch ? UROCE_DUMP_SWITCH : UROCE_DUMP_DEVICES);
  if (!json.ok()) return json.status();
  const absl::StatusOr<std::vector<std::string>> found = DevicesIn(*json);
  if (!found.ok()) return found.status();
  const std::vector<std::string>& names = *found;
  if (std::find(names.begin(), names.end(), device) != names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no ", is_switch ? "switch" : "device", " \"", device, "\"",
      Suggestion(device, names),
      names.empty() ? "; there are none" : "; there are: " + absl::StrJoin(names, ", ")));
}

absl::Status TakeFilters(const std::string& socket_path, const std::vector<std::string>& filters,
                         uroce_dump_what what, Selection& select) {
  for (const std::string& text : filters) {
    if (absl::Status status = AddFilter(text, select); !status.ok()) return status;
  }
  if (absl::Status status = CheckFilters(what, select); !status.ok()) return status;
  return CheckDevice(socket_path, select.device, what);
}

int PrintDump(const std::string& socket_path, const ListingFlags& flags, uroce_dump_what what) {
  DumpClient daemon(socket_path);
  return PrintDumpOf(daemon, flags, what, /*is_again=*/false);
}

void AddDevice(const Command& command, Selection& select) {
  command.AddValue("-d,--device", select.device, "Only this device");
}

void AddWatch(const Command& command, double& watch_s, const char* description) {
  command.AddValue("--watch", watch_s, description).Check([](std::string& text) {
    double seconds = 0;
    const bool is_good = absl::SimpleAtod(text, &seconds) && seconds >= 0.1 && seconds <= 3600;
    return is_good ? std::string() : text + " is no number of seconds from 0.1 to 3600";
  });
}

Command AddListing(const Command& app, Invocation& invocation,
                   const std::shared_ptr<ListingFlags>& flags, const char* name,
                   const char* description, uroce_dump_what what) {
  const Command command = app.AddCommand(name, description);
  AddSocketFlag(command, invocation);
  command.AddFlag("--json", flags->json, "Print JSON; with --watch one line each time (NDJSON)");
  AddDevice(command, flags->render.select);
  AddWatch(command, flags->watch_s,
           what == UROCE_DUMP_STAT ? "Print again after so many seconds, with changes and rates"
                                   : "Print again after so many seconds");
  command.AddValue("FILTER", flags->filters, FiltersText(what));
  command.OnChosen([flags, &invocation, what, command] {
    if (command.HasCommand()) return;
    invocation.exit_status = List(invocation.SocketPath(), *flags, what);
  });
  return command;
}

void AddListings(const Command& app, Invocation& invocation) {
  const auto flags = std::make_shared<ListingFlags>();
  const auto add = [&](const char* name, const char* description, uroce_dump_what what) {
    return AddListing(app, invocation, flags, name, description, what);
  };
  add("devices", "Devices with their ports and GIDs", UROCE_DUMP_DEVICES);
  const Command stat = add("stat", "Counters of the devices", UROCE_DUMP_STAT);
  stat.AddFlag("-a,--all", flags->render.all, "Counters that are zero, too");
  stat.AddFlag("--workers", flags->render.workers, "What each worker and the control thread do");
  stat.AddValue("--html", flags->html,
                "Write a page to this file, which opens without a network; with --watch again "
                "after each look, with graphs of what changed");
  stat.AddValue("--d3", flags->library,
                "The library d3 for --html, if not that of Debian's libjs-d3");
  add("qp", "Queue pairs", UROCE_DUMP_QP);
  add("cq", "Completion queues", UROCE_DUMP_CQ);
  add("mr", "Memory regions", UROCE_DUMP_MR);
  add("srq", "Shared receive queues", UROCE_DUMP_SRQ);
  add("pd", "Protection domains", UROCE_DUMP_PD);
  add("ctx", "Contexts: devices that programs have open", UROCE_DUMP_CTX);
  add("peers", "NICs that queue pairs are connected to", UROCE_DUMP_PEERS);
  add("cm", "Connections of librdmacm programs", UROCE_DUMP_CM);
}

// ---- top and monitor ----

namespace {

constexpr double kLookAtDaemonS = 0.25;  // While the screen waits for a key.
constexpr char kFiltersHelp[] = "Only device=NAME, pid=NUMBER, qpn=NUMBER";

struct WatchingFlags {
  double watch_s = 1;
  bool is_batch = false;
  uint64_t count = 0;  ///< 0: without end.
  std::vector<std::string> filters;
  Selection select;
};

/// Waits for a key too, if there is a screen. Returns false when it is q.
bool AwaitNextLook(const DumpClient& daemon, Screen* screen, double seconds) {
  using Clock = std::chrono::steady_clock;
  if (screen == nullptr) {
    daemon.Await(seconds);
    return true;
  }
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (auto now = Clock::now(); now < end && !daemon.HasEnded(); now = Clock::now()) {
    const double left_s = std::chrono::duration<double>(end - now).count();
    if (!screen->Await(std::min(left_s, kLookAtDaemonS))) return false;
  }
  return true;
}

/// Shows the programs and queue pairs with the highest rates, again after each interval.
int Top(const std::string& socket_path, WatchingFlags& flags) {
  using Clock = std::chrono::steady_clock;
  const absl::Status filtered =
      TakeFilters(socket_path, flags.filters, UROCE_DUMP_QP, flags.select);
  if (!filtered.ok()) return Report(filtered);
  DumpClient daemon(socket_path);
  absl::StatusOr<std::string> before = daemon.Fetch(UROCE_DUMP_QP);
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
    if (!AwaitNextLook(daemon, screen.get(), flags.watch_s)) return 0;
    absl::StatusOr<std::string> after = daemon.Fetch(UROCE_DUMP_QP);
    const Clock::time_point now = Clock::now();
    const absl::StatusOr<std::string> text =
        after.ok() ? RenderTop(*before, *after, std::chrono::duration<double>(now - then).count(),
                               flags.select)
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

/// Prints events until the daemon ends, or as many as are wanted.
int Follow(const std::string& socket_path, WatchingFlags& flags) {
  const absl::Status filtered =
      TakeFilters(socket_path, flags.filters, UROCE_DUMP_QP, flags.select);
  if (!filtered.ok()) return Report(filtered);
  int result = 0;
  uint64_t shown = 0;
  const auto take = [&](const std::string& line) {
    if (!IsEventShown(line, flags.select)) return true;
    result = Print(line + "\n");
    return result == 0 && ++shown != flags.count;
  };
  const absl::Status status = FollowEvents(socket_path, take);
  return result != 0 ? result : Report(status);
}

void AddTop(const Command& app, Invocation& invocation) {
  const auto flags = std::make_shared<WatchingFlags>();
  const Command top = app.AddCommand(
      "top", "Programs and queue pairs with the highest rates, on the whole terminal; q ends it");
  AddSocketFlag(top, invocation);
  top.AddFlag("--batch", flags->is_batch, "Print one table after the other instead");
  AddDevice(top, flags->select);
  AddWatch(top, flags->watch_s, "Seconds between two tables (default 1)");
  top.AddValue("-c,--count", flags->count, "End after so many tables").Check(1);
  top.AddValue("FILTER", flags->filters, kFiltersHelp);
  top.SetFooter("Example: uroce top --batch --watch 0.5 device=uroce0");
  top.OnChosen(
      [flags, &invocation] { invocation.exit_status = Top(invocation.SocketPath(), *flags); });
}

void AddMonitor(const Command& app, Invocation& invocation) {
  const auto flags = std::make_shared<WatchingFlags>();
  const Command monitor = app.AddCommand(
      "monitor", "Events as they come, one JSON object a line: programs, queue pairs, links, GIDs");
  AddSocketFlag(monitor, invocation);
  AddDevice(monitor, flags->select);
  monitor.AddValue("-c,--count", flags->count, "End after so many events").Check(1);
  monitor.AddValue("FILTER", flags->filters, kFiltersHelp);
  monitor.SetFooter("Example: uroce monitor device=uroce0 | jq -r .event");
  monitor.OnChosen(
      [flags, &invocation] { invocation.exit_status = Follow(invocation.SocketPath(), *flags); });
}

}  // namespace

void AddWatching(const Command& app, Invocation& invocation) {
  AddTop(app, invocation);
  AddMonitor(app, invocation);
}

}  // namespace uroce::tools
