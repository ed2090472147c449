// SPDX-License-Identifier: Apache-2.0
// What must hold of the codec of capabilities for any bytes whatever.
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/wire/capabilities_mad.h"

namespace uroce::wire {

/// Decodes `bytes`, makes the MAD again and decodes that: they are equal.
inline bool CapabilitiesHold(std::span<const uint8_t> bytes) {
  CapabilitiesMad mad;
  if (DecodeCapabilities(bytes, mad) != CapabilitiesResult::kOk) return true;
  if (ToString(mad).empty()) return false;
  CapabilitiesMad again;
  return DecodeCapabilities(EncodeCapabilities(mad), again) == CapabilitiesResult::kOk &&
         again == mad;
}

}  // namespace uroce::wire
