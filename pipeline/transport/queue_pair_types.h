// SPDX-License-Identifier: Apache-2.0
// What all kinds of queue pairs speak of.
#pragma once

#include <cstdint>

namespace uroce::transport {

/// Values are those of ibv_qp_state.
enum class QpState : uint8_t {
  kReset = 0,
  kInit = 1,
  kRtr = 2,
  kRts = 3,
  kSqd = 4,
  kSqe = 5,
  kErr = 6,
};

enum class PostResult : uint8_t { kPosted, kQueueFull };

/// Asynchronous events. Values are those of ibv_event_type.
enum class QpEvent : uint8_t {
  kQpFatal = 1,
  kQpReqErr = 2,
  kQpAccessErr = 3,
  kCommEst = 4,
  kSqDrained = 5,
  kLastWqeReached = 16,
};

}  // namespace uroce::transport
