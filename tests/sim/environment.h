// SPDX-License-Identifier: Apache-2.0
// Numbers that whoever starts a test may set, and what queue pairs find around them.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "pipeline/congestion/environment.h"

namespace uroce::sim {

inline uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

/// Of queue pairs whose window is one of round trips.
inline const congestion::Environment& ByDelay() {
  static const congestion::Environment environment{
      .settings = congestion::DefaultsOf(congestion::Profile::kDelay)};
  return environment;
}

}  // namespace uroce::sim
