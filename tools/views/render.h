// SPDX-License-Identifier: Apache-2.0
// Shows the daemon's JSON dumps as tables for people.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "tools/views/dump_view.h"
#include "tools/views/listing.h"

namespace uroce::tools {

/// The options of the display.
struct RenderOptions {
  bool all = false;      ///< Also show counters that are zero.
  bool workers = false;  ///< Of UROCE_DUMP_STAT: show each worker, not each device.
  Selection select;
};

/// A table of `json`. Unknown columns follow the known ones, and missing columns are left out,
/// because tool and daemon may be of different versions.
absl::StatusOr<std::string> RenderDump(uroce_dump_what what, const std::string& json,
                                       const RenderOptions& options);

/// The faults of each device and their counters, and its rules with theirs, from a dump
/// UROCE_DUMP_STAT.
absl::StatusOr<std::string> RenderFaults(const std::string& json, const std::string& device);
/// The same as a dump: of each device its name and what is said of its faults.
absl::StatusOr<std::string> FaultsOf(const std::string& json);

/// `json` with "timestamp" (RFC 3339, UTC, microseconds), "schema" and "schema_version", and in its
/// lists what `select` selects. `listing` names the schema. Indented for reading, or as one line
/// for each look of --watch (NDJSON). All that is not ASCII is escaped.
absl::StatusOr<std::string> RenderJson(const Listing& listing, const std::string& json,
                                       const Selection& select, absl::Time time, bool is_line);

}  // namespace uroce::tools
