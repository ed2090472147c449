// SPDX-License-Identifier: Apache-2.0
// Limits of a capture file and of a capture, with the words of dumpcap(1).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace uroce::tools {

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

}  // namespace uroce::tools
