// SPDX-License-Identifier: Apache-2.0
// Numbers that whoever starts a test may set.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace uroce::sim {

inline uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

}  // namespace uroce::sim
