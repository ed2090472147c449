// SPDX-License-Identifier: Apache-2.0
// Shows which programs and queue pairs send and receive most.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tools/views/dump_view.h"

namespace uroce::tools {

/// Programs, and below them queue pairs, those with the highest rates first. `before` and `after`
/// are two dumps of UROCE_DUMP_QP, `seconds` apart (> 0). A queue pair that `before` does not have
/// counts from 0. Rates are of packets with all headers, in bits per second.
absl::StatusOr<std::string> RenderTop(const std::string& before, const std::string& after,
                                      double seconds, const Selection& select);

}  // namespace uroce::tools
