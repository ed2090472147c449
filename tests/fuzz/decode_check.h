// SPDX-License-Identifier: Apache-2.0
// Invariants of decode that hold for any bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "pipeline/wire/decode.h"
#include "pipeline/wire/icrc.h"
#include "pipeline/wire/to_string.h"
#include "tests/wire/reencode.h"

namespace uroce::wire {

/// Decodes `frame`, reads all that decode yields, encodes the packet again and decodes that. False
/// if the two packets differ, or if the new frame is not valid in every respect.
inline bool DecodeHolds(std::span<const uint8_t> frame) {
  Packet packet;
  FrameView view;
  if (Decode(frame, packet, view) != DecodeResult::kOk) return true;
  static_cast<void>(IcrcIsRight(frame, view));
  const std::vector<uint8_t> again = Reencode(frame, packet, view);
  if (again.size() > frame.size()) return false;
  Packet packet_again;
  FrameView view_again;
  if (Decode(again, packet_again, view_again) != DecodeResult::kOk) return false;
  if (!IcrcIsRight(again, view_again)) return false;
  return ToString(packet) == ToString(packet_again) && packet.source == packet_again.source &&
         std::equal(packet.payload.begin(), packet.payload.end(), packet_again.payload.begin(),
                    packet_again.payload.end());
}

}  // namespace uroce::wire
