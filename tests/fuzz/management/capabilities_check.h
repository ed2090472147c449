// SPDX-License-Identifier: Apache-2.0
// Invariants of the codec of capabilities that hold for any bytes.
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/wire/gsi.h"

namespace uroce::wire {

/// Decodes `bytes`, encodes the MAD again and decodes that: both must be equal.
inline bool CapabilitiesHold(std::span<const uint8_t> bytes) {
  CapabilitiesMad mad;
  if (DecodeCapabilities(bytes, mad) != CapabilitiesResult::kOk) return true;
  if (ToString(mad).empty()) return false;
  CapabilitiesMad again;
  return DecodeCapabilities(EncodeCapabilities(mad), again) == CapabilitiesResult::kOk &&
         again == mad;
}

}  // namespace uroce::wire
