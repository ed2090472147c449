// SPDX-License-Identifier: Apache-2.0
// Records on the sockets that a program polls: completion channels and asynchronous events.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>

#include "pipeline/base/types.h"
#include "verbs-shim/abi/uroce_arena.h"

namespace uroce::datapath {

/// When a full socket is tried again first: see RecordRetries.
inline constexpr Nanos kRecordRetry{1'000'000};

/// Events of ibv_event_type that workers raise.
inline constexpr uint32_t kEventCqError = 0;
inline constexpr uint32_t kEventQpFatal = 1;
inline constexpr uint32_t kEventSrqLimitReached = 15;

/// Sends one record, whole or not at all: a wake-up, the one system call that the path of a packet
/// allows. It waits for nothing that a reader holds. `fd` is the daemon's end of a stream socket,
/// or -1: nobody listens. `event_type`: of ibv_event_type, or UROCE_EVENT_COMPLETION. False: the
/// socket is full, try again later. A closed one takes everything.
[[nodiscard]] inline bool WriteRecord(int fd, uint64_t element, uint32_t event_type) {
  if (fd < 0) return true;
  const uroce_event_record record{element, event_type, 0};
  return send(fd, &record, sizeof(record), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(record) ||
         errno != EAGAIN;
}

}  // namespace uroce::datapath
