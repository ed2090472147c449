// SPDX-License-Identifier: Apache-2.0
#include "drivers/port.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace uroce::drivers {
namespace {

constexpr std::array<const char*, 4> kFlowControls = {"off", "rx", "tx", "full"};

}  // namespace

const char* NameOf(FlowControl flow_control) {
  return kFlowControls[static_cast<size_t>(flow_control)];
}

std::optional<FlowControl> ParseFlowControl(const std::string& name) {
  const auto found = std::ranges::find(kFlowControls, name);
  if (found == kFlowControls.end()) return std::nullopt;
  return static_cast<FlowControl>(found - kFlowControls.begin());
}

}  // namespace uroce::drivers
