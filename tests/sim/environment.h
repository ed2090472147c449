// SPDX-License-Identifier: Apache-2.0
// Reads numbers that the user of a test may set, and defines the settings around queue pairs.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "pipeline/congestion/settings.h"

namespace uroce::sim {

inline uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

/// For queue pairs whose congestion window follows round-trip times.
inline const congestion::Environment& ByDelay() {
  static const congestion::Environment environment{
      .settings = congestion::DefaultsOf(congestion::Profile::kDelay)};
  return environment;
}

}  // namespace uroce::sim
