// SPDX-License-Identifier: Apache-2.0
// What the sub-commands that show the daemon's objects share, such as `uroce qp` and `uroce cc`:
// their flags and filters.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "tools/client/command_line.h"
#include "tools/commands/commands.h"
#include "tools/views/dump_view.h"
#include "tools/views/listing.h"

namespace uroce::tools {

/// Flags of a listing. A listing below another one, as `uroce cc parameters`, shares them with it.
struct ListingFlags {
  bool json = false;
  RenderOptions render;
  double watch_s = 0;                ///< 0: once.
  std::string html;                  ///< Of counters: the page to write; "": none.
  std::string library;               ///< The library d3 of that page; "": where Debian has it.
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

void AddDevice(const Command& command, Selection& select);
void AddWatch(const Command& command, double& watch_s, const char* description);

Command AddListing(const Command& app, Invocation& invocation,
                   const std::shared_ptr<ListingFlags>& flags, const char* name,
                   const char* description, uroce_dump_what what);

}  // namespace uroce::tools
