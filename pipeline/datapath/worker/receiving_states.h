// SPDX-License-Identifier: Apache-2.0
// Says in which states a queue pair receives.
#pragma once

#include "pipeline/transport/queue_pair_types.h"

namespace uroce::datapath {

/// Whether a queue pair in `state` receives.
constexpr bool TakesPackets(transport::QpState state) {
  switch (state) {
    case transport::QpState::kRtr:
    case transport::QpState::kRts:
    case transport::QpState::kSqd:
    case transport::QpState::kSqe:
      return true;
    case transport::QpState::kReset:
    case transport::QpState::kInit:
    case transport::QpState::kErr:
      return false;
  }
  return false;
}

}  // namespace uroce::datapath
