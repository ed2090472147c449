// SPDX-License-Identifier: Apache-2.0
// Explains a wrong ICRC: which bit, byte or field, if it alone was changed, makes it right
// (docs/protocol/wire-format.md, section 7).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/analyze/input/packet_reader.h"

namespace uroce::tools::analyze {

struct Damage {
  std::string text;  ///< "bit 3 of byte 61 of the frame (in the PSN) was changed".
  /// The frame as it was sent, if one changed byte explains the ICRC; otherwise empty.
  std::vector<uint8_t> repaired;
};

/// `packet` has a wrong ICRC.
Damage ExplainDamage(const CapturedPacket& packet);

}  // namespace uroce::tools::analyze
