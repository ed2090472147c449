// SPDX-License-Identifier: Apache-2.0
// Which faults a port makes, and the text in which users write them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "drivers/fault/fault_rule.h"
#include "pipeline/base/types.h"

namespace uroce::drivers {

/// The most rules of a port: each costs time for every packet.
inline constexpr size_t kMaxFaultRules = 16;

/// Rates are probabilities per frame. The same seed and the same frames give the same faults.
struct FaultConfig {
  uint64_t seed = 1;
  double drop = 0;
  double duplicate = 0;
  double reorder = 0;  ///< The frame is held back until one to eight later frames have passed it.
  double corrupt = 0;  ///< One byte is changed.
  double ce_mark = 0;  ///< ECN of IP frames becomes 3, congestion experienced.
  Nanos delay{0};      ///< Every frame is delayed by this time.
  bool link_down = false;  ///< The port has no link: every frame is dropped, in both directions.
  FaultDirection direction = FaultDirection::kBoth;  ///< Of the rates and the delay.
  std::vector<FaultRule> rules;                      ///< Beside them.
  /// Whether every frame comes out exactly as it went in, and at once.
  bool is_harmless() const {
    return drop == 0 && duplicate == 0 && reorder == 0 && corrupt == 0 && ce_mark == 0 &&
           delay == Nanos(0) && !link_down && rules.empty();
  }
};

/// Parses "seed=1,drop=0.01,duplicate=0.01,reorder=0.02,delay=10us,corrupt=0.001,ce=0.01,dir=both,
/// link=down", or any of these keys in any order. Behind them rules may follow, each of which
/// begins with "rule=ACTION" and goes on with keys of its own (fault_rule.h). Errors name the key,
/// the value and what would be right.
absl::StatusOr<FaultConfig> ParseFault(const std::string& text);

}  // namespace uroce::drivers
