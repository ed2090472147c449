// SPDX-License-Identifier: Apache-2.0
// `uroce capture`: its options and limits, with the words of dumpcap(1), and one run of it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "pipeline/shm/abi/uroce_capture.h"

namespace uroce::tools {

class Command;

// ---- Limits ----

/// Bounds on a file or on a whole capture; 0 means no bound.
struct CaptureLimits {
  uint64_t bytes = 0;
  uint64_t packets = 0;
  uint64_t duration_ns = 0;
  uint64_t files = 0;  ///< Of a ring: files kept. Of a capture: files written.
};

/// The amount in a file or in a capture so far.
struct CaptureAmount {
  uint64_t bytes = 0;
  uint64_t packets = 0;
  uint64_t duration_ns = 0;
  uint64_t files = 0;  ///< The number of full files.
};

/// Adds `text`, one of filesize:KB (units of 1000 bytes), packets:N, duration:SECONDS (fractions
/// too) and files:N. `option` is named in errors. Errors: an unknown word, a value that is no
/// number above 0.
absl::Status AddLimit(absl::string_view option, absl::string_view text, CaptureLimits& limits);

/// Whether bytes, packets or time are bounded: such a bound can end one file.
bool BoundsOneFile(const CaptureLimits& limits);

/// Whether a bound other than that on files is reached.
bool IsReached(const CaptureLimits& limits, const CaptureAmount& amount);

// ---- Options, and a run ----

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

/// Adds the flags that capture and uroce-extcap share: which packets, and how much of each.
/// `options` outlives the parse.
void AddCaptureFlags(const Command& app, CaptureOptions& options);

/// Captures until SIGINT, SIGTERM or SIGHUP, until a limit is reached, until the reader of a pipe
/// closes it, or until the daemon ends (an error). Prints to stderr the numbers captured and lost.
/// Errors: kInvalidArgument for options that exclude each other; kDataLoss when a started capture
/// failed, for example by a full disk: the file is well formed up to that point.
absl::Status RunCapture(const std::string& socket_path, const CaptureOptions& options);

}  // namespace uroce::tools
