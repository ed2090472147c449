// SPDX-License-Identifier: Apache-2.0
// What the commands that list objects have in common: the names of their JSON, and their filters.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "tools/views/dump_view.h"

namespace uroce::tools {

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

}  // namespace uroce::tools
