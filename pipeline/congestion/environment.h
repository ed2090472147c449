// SPDX-License-Identifier: Apache-2.0
// What the flows of one NIC on one worker have in common.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/congestion/settings.h"

namespace uroce::congestion {

/// Owned by the shell, which outlives the flows. One thread; `settings` are changed while it does
/// nothing else.
struct Environment {
  Settings settings;
  /// What the port sends at most.
  uint64_t line_bps = 100'000'000'000;
  /// How long in all the shell's thread did not run though it wanted to: round trips leave it out.
  Nanos stalled{};

  bool is_on() const { return settings.profile != Profile::kOff; }
};

}  // namespace uroce::congestion
