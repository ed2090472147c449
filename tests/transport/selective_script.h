// SPDX-License-Identifier: Apache-2.0
// What scripts of selective repeat have in common. Marks are 0x20 and the round in requests, 0x40
// and the round in responses; a hole stands where others have the MSN: its offset from the NAK's
// PSN times 4096, and its packets.
#pragma once

#include <string>

#include "pipeline/transport/selective_repeat.h"
#include "tests/transport/script.h"

namespace uroce::transport {

inline constexpr int64_t kUs = 1'000;
/// The ACK timeout of a script's queue pair.
inline constexpr int64_t kTimeout = 67'108'864;

inline ScriptConfig Selective() { return {.selective_repeat = true}; }

inline std::string HoleText(uint32_t offset, uint32_t packets) {
  return " msn=" + std::to_string(Hole{.offset = offset, .packets = packets}.Packed());
}

/// The peer shows itself in the answer to a SEND of PSN 100.
inline void Agree(Script& s) {
  s.At(0).Post(Send(0)).Sends({"SEND_ONLY psn=000100 len=0 ackreq mark=20"});
  s.At(10 * kUs).Receive("ACK psn=000100 msn=1 mark=40").Completes({"0 SEND SUCCESS"});
}

}  // namespace uroce::transport
