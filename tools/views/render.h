// SPDX-License-Identifier: Apache-2.0
// The daemon's JSON dumps as tables for people.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::tools {

/// How a dump is shown.
struct RenderOptions {
  bool all = false;      ///< Also counters that are zero.
  bool workers = false;  ///< Of UROCE_DUMP_STAT: what each worker does, not each device.
  std::string device;    ///< Only what belongs to this device; "" for all.
};

/// A table of `json`. Columns that this version does not know are shown behind those it does, and
/// missing ones are left out: tool and daemon may differ in age.
absl::StatusOr<std::string> RenderDump(uroce_dump_what what, const std::string& json,
                                       const RenderOptions& options);

/// The faults of each device and what they did, from a dump UROCE_DUMP_STAT.
absl::StatusOr<std::string> RenderFaults(const std::string& json, const std::string& device);

/// `json` indented for reading, and checked.
absl::StatusOr<std::string> RenderJson(const std::string& json);

}  // namespace uroce::tools
