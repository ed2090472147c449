// SPDX-License-Identifier: Apache-2.0
// The sub-commands that show the daemon's objects, such as `uroce qp`, once or again after each
// interval; `uroce top` and `uroce monitor`.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "tools/commands/command.h"
#include "tools/views/dump_view.h"
#include "tools/views/listing.h"

namespace uroce::tools {

// The sub-commands that list objects of the daemon, such as `uroce qp`: once, or again after each
// interval.

/// Flags of a listing. A listing below another one, as `uroce cc parameters`, shares them with it.
struct ListingFlags {
  bool json = false;
  RenderOptions render;
  double watch_s = 0;                ///< 0: once.
  std::vector<std::string> filters;  ///< pid=, qpn=, device=.
};

/// Refuses a device, or for a listing of switches a switch, that the daemon does not have. "" is
/// none.
absl::Status CheckDevice(const std::string& socket_path, const std::string& device,
                         uroce_dump_what what);
/// Adds `filters` to `select`. Errors: a filter that the listing does not have, or whose device the
/// daemon does not have.
absl::Status TakeFilters(const std::string& socket_path, const std::vector<std::string>& filters,
                         uroce_dump_what what, Selection& select);

/// Prints a dump once.
int PrintDump(const std::string& socket_path, const ListingFlags& flags, uroce_dump_what what);

void AddDevice(CLI::App& command, Selection& select);
void AddWatch(CLI::App& command, double& watch_s, const char* description);

CLI::App* AddListing(CLI::App& app, Invocation& invocation,
                     const std::shared_ptr<ListingFlags>& flags, const char* name,
                     const char* description, uroce_dump_what what);
/// Adds the listings that have no other commands below them.
void AddListings(CLI::App& app, Invocation& invocation);

// `uroce top`: the highest rates, again after each interval. `uroce monitor`: events as they come.

void AddWatching(CLI::App& app, Invocation& invocation);

}  // namespace uroce::tools
