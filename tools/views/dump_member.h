// SPDX-License-Identifier: Apache-2.0
// Members of what the daemon answers.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

namespace uroce::tools {

/// The number `name` of a part of a dump; 0 where there is none, as a daemon of another release may
/// not tell it.
inline uint64_t NumberOf(const nlohmann::ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

}  // namespace uroce::tools
