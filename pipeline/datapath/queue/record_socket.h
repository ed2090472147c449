// SPDX-License-Identifier: Apache-2.0
// Records on the sockets that a program polls: completion channels and asynchronous events.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::datapath {

class WakePace;

/// The first wait after a full socket: see RecordRetries.
inline constexpr Nanos kRecordRetry{1'000'000};

/// Events of ibv_event_type that workers raise.
inline constexpr uint32_t kEventCqError = 0;
inline constexpr uint32_t kEventQpFatal = 1;
inline constexpr uint32_t kEventSrqLimitReached = 15;

/// The daemon's end of a stream socket. Any thread. Owned by nic.
struct RecordSocket {
  int fd = -1;               ///< -1: nobody listens.
  WakePace* pace = nullptr;  ///< The pace of its user; null: no limit.

  bool is_open() const { return fd >= 0; }
  /// Sends one record, whole or not at all. This is a wake-up, the one system call that the path of
  /// a packet allows. It waits for nothing that a reader holds. `event_type`: of ibv_event_type, or
  /// UROCE_EVENT_COMPLETION.
  /// False: the socket is full, or its user's records have taken too long; try again later. A
  /// closed socket takes everything.
  [[nodiscard]] bool Write(uint64_t element, uint32_t event_type) const;
};

}  // namespace uroce::datapath
