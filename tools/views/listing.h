// SPDX-License-Identifier: Apache-2.0
// Shows the daemon's JSON dumps as tables for people and as JSON: the names of the listings, their
// filters and their text.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "tools/views/dump_view.h"

namespace uroce::tools {

// ---- Listings: names of their JSON, and filters ----

/// A command that lists the objects of a dump.
struct Listing {
  uroce_dump_what what;
  const char* command;
  const char* schema;  ///< The name of its JSON.
  /// Rises when a member goes away or gets another meaning; more members do not change it.
  uint32_t version;
  bool has_pid;  ///< Its objects are those of programs: pid= and qpn= select some.
};

/// What `uroce fault` shows of UROCE_DUMP_STAT.
inline constexpr Listing kFaults{UROCE_DUMP_STAT, "fault", "uroce-fault", 1, false};

/// What `uroce doctor` finds, which is no dump of the daemon.
inline constexpr Listing kDoctor{UROCE_DUMP_DEVICES, "doctor", "uroce-doctor", 1, false};

/// Range: a dump that a command lists.
const Listing& ListingOf(uroce_dump_what what);

/// What --help says of the filters.
std::string FiltersText(uroce_dump_what what);

/// Errors: InvalidArgument, no object of the listing has what a filter asks for.
absl::Status CheckFilters(uroce_dump_what what, const Selection& select);

/// Whether the objects have no number of a queue pair, but are used by queue pairs.
bool IsUsedByQueuePairs(uroce_dump_what what);

/// `json`, a dump of such objects, with those that the queue pair `qpn` uses, which get its number
/// as "qpn". `queue_pairs`: a dump of queue pairs. Errors: kDataLoss when a text is not JSON.
absl::StatusOr<std::string> OnlyUsedBy(uint32_t qpn, const std::string& queue_pairs,
                                       uroce_dump_what what, const std::string& json);

// ---- The settings of the daemon ----

/// TOML of a dump UROCE_DUMP_CONFIG: settings, [limits], then [[port]], [[wire]] and [[switch]].
absl::StatusOr<std::string> RenderConfig(const std::string& json);

// ---- Tables and JSON ----

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
