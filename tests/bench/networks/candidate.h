// SPDX-License-Identifier: Apache-2.0
// What the tables compare.
#pragma once

#include <string>

#include "pipeline/congestion/settings.h"

namespace uroce::networks {

/// Settings, and the name that the tables have for them.
struct Candidate {
  std::string name;
  congestion::Settings settings;
};

}  // namespace uroce::networks
