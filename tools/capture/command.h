// SPDX-License-Identifier: Apache-2.0
// `uroce capture`: writes frames of the daemon's devices into pcapng files, live.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "pipeline/shm/abi/uroce_capture.h"
#include "tools/capture/limits.h"

namespace uroce::tools {

struct CaptureOptions {
  std::string file;                ///< "-" is stdout.
  std::string device;              ///< "" for all.
  std::string filter;              ///< libpcap expression, "" for all frames.
  uint32_t snap_length_bytes = 0;  ///< 0: whole frames.
  uint32_t only = 0;               ///< UROCE_CAPTURE_DROPPED and others; 0: all frames.
  uint64_t ring_bytes = 64 << 20;  ///< The size of each ring to this tool.
  uint32_t directions = UROCE_CAPTURE_INBOUND | UROCE_CAPTURE_OUTBOUND;
  CaptureLimits file_limits;  ///< When a ring of files starts its next file; none: no ring.
  CaptureLimits limits;       ///< When the capture ends; none: by a signal.
  bool quiet = false;         ///< Print to stderr only what was lost.
};

/// Captures until SIGINT, SIGTERM or SIGHUP, until a limit is reached, until the reader of a pipe
/// closes it, or until the daemon ends (an error). Prints to stderr the numbers captured and lost.
/// Errors: kInvalidArgument for options that exclude each other; kDataLoss when a started capture
/// failed, for example by a full disk: the file is well formed up to that point.
absl::Status RunCapture(const std::string& socket_path, const CaptureOptions& options);

}  // namespace uroce::tools
