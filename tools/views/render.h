// SPDX-License-Identifier: Apache-2.0
// Shows the daemon's JSON dumps as tables for people.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::tools {

/// The options of the display.
struct RenderOptions {
  bool all = false;      ///< Also show counters that are zero.
  bool workers = false;  ///< Of UROCE_DUMP_STAT: show each worker, not each device.
  std::string device;    ///< Show only what belongs to this device; "" for all.
};

/// A table of `json`. Unknown columns follow the known ones, and missing columns are left out,
/// because tool and daemon may be of different versions.
absl::StatusOr<std::string> RenderDump(uroce_dump_what what, const std::string& json,
                                       const RenderOptions& options);

/// The faults of each device and their counters, from a dump UROCE_DUMP_STAT.
absl::StatusOr<std::string> RenderFaults(const std::string& json, const std::string& device);

/// `json`, checked and indented for reading.
absl::StatusOr<std::string> RenderJson(const std::string& json);

}  // namespace uroce::tools
