// SPDX-License-Identifier: Apache-2.0
// `uroce capture`: frames of the daemon's devices into a pcapng file, live.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace uroce::tools {

struct CaptureOptions {
  std::string file;                ///< "-" is stdout.
  std::string device;              ///< "" for all.
  std::string filter;              ///< libpcap expression, "" for all frames.
  uint32_t snap_length_bytes = 0;  ///< 0: whole frames.
  uint64_t max_frames = 0;         ///< 0: until interrupted.
};

/// Captures until interrupted, until `max_frames` were written, until the reader of a pipe goes, or
/// until the daemon goes (an error). Says on stderr what it captured and lost.
absl::Status RunCapture(const std::string& socket_path, const CaptureOptions& options);

}  // namespace uroce::tools
