// SPDX-License-Identifier: Apache-2.0
// What scripts of selective repeat have in common.
#pragma once

#include "tests/transport/script/script.h"

namespace uroce::transport {

inline constexpr int64_t kUs = 1'000;
/// The ACK timeout of a script's queue pair.
inline constexpr int64_t kTimeout = 67'108'864;

/// Both ends have agreed.
inline ScriptConfig Selective() { return {.selective_repeat = true, .agreed = true}; }

/// A round trip of 10 us with a SEND of PSN 100.
inline void MeasureRoundTrip(Script& s) {
  s.At(0).Post(Send(0)).Sends({"SEND_ONLY psn=000100 len=0 ackreq"});
  s.At(10 * kUs).Receive("ACK psn=000100 msn=1").Completes({"0 SEND SUCCESS"});
}

}  // namespace uroce::transport
