// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/watching.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/client/control_client.h"
#include "tools/client/whole_number.h"
#include "tools/commands/listings.h"
#include "tools/views/dump_view.h"
#include "tools/views/screen.h"
#include "tools/views/top.h"

namespace uroce::tools {
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

/// Whether `monitor` shows an event: one that is selected, or the news that some were lost.
bool IsShown(const std::string& line, const Selection& select) {
  const absl::StatusOr<Json> event = ParseDump(line);
  if (!event.ok() || !event->is_object()) return false;
  return event->value("event", "") == "lost" || IsSelected(*event, select);
}

/// Prints events until the daemon ends, or as many as are wanted.
int Follow(const std::string& socket_path, WatchingFlags& flags) {
  const absl::Status filtered =
      TakeFilters(socket_path, flags.filters, UROCE_DUMP_QP, flags.select);
  if (!filtered.ok()) return Report(filtered);
  int result = 0;
  uint64_t shown = 0;
  const auto take = [&](const std::string& line) {
    if (!IsShown(line, flags.select)) return true;
    result = Print(line + "\n");
    return result == 0 && ++shown != flags.count;
  };
  const absl::Status status = FollowEvents(socket_path, take);
  return result != 0 ? result : Report(status);
}

void AddTop(CLI::App& app, Invocation& invocation) {
  const auto flags = std::make_shared<WatchingFlags>();
  CLI::App* top = app.add_subcommand(
      "top", "Programs and queue pairs with the highest rates, on the whole terminal; q ends it");
  AddSocketFlag(*top, invocation);
  top->add_flag("--batch", flags->is_batch, "Print one table after the other instead");
  AddDevice(*top, flags->select);
  AddWatch(*top, flags->watch_s, "Seconds between two tables (default 1)");
  top->add_option("-c,--count", flags->count, "End after so many tables")->check(WholeNumber(1));
  top->add_option("FILTER", flags->filters, kFiltersHelp);
  top->footer("Example: uroce top --batch --watch 0.5 device=uroce0");
  top->callback(
      [flags, &invocation] { invocation.exit_status = Top(invocation.SocketPath(), *flags); });
}

void AddMonitor(CLI::App& app, Invocation& invocation) {
  const auto flags = std::make_shared<WatchingFlags>();
  CLI::App* monitor = app.add_subcommand(
      "monitor", "Events as they come, one JSON object a line: programs, queue pairs, links, GIDs");
  AddSocketFlag(*monitor, invocation);
  AddDevice(*monitor, flags->select);
  monitor->add_option("-c,--count", flags->count, "End after so many events")
      ->check(WholeNumber(1));
  monitor->add_option("FILTER", flags->filters, kFiltersHelp);
  monitor->footer("Example: uroce monitor device=uroce0 | jq -r .event");
  monitor->callback(
      [flags, &invocation] { invocation.exit_status = Follow(invocation.SocketPath(), *flags); });
}

}  // namespace

void AddWatching(CLI::App& app, Invocation& invocation) {
  AddTop(app, invocation);
  AddMonitor(app, invocation);
}

}  // namespace uroce::tools
