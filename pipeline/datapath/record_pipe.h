// SPDX-License-Identifier: Apache-2.0
// Records on the pipes that a program polls: completion channels and asynchronous events.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "pipeline/base/types.h"
#include "verbs-shim/abi/uroce_arena.h"

namespace uroce::datapath {

/// When a full pipe is tried again first: see RecordRetries.
inline constexpr Nanos kRecordRetry{1'000'000};

/// Writes one record to a non-blocking pipe: a wake-up, the one system call that the path of a
/// packet allows. Pipes take records of this size whole or not at all.
/// False: the pipe is full, try again later. A closed pipe takes everything.
template <typename Record>
[[nodiscard]] bool WriteRecord(int fd, const Record& record) {
  if (fd < 0) return true;
  return write(fd, &record, sizeof(record)) == sizeof(record) || errno != EAGAIN;
}

/// Events of ibv_event_type that workers raise.
inline constexpr uint32_t kEventCqError = 0;
inline constexpr uint32_t kEventQpFatal = 1;
inline constexpr uint32_t kEventSrqLimitReached = 15;

inline bool WriteAsyncRecord(int fd, uint64_t element, uint32_t event_type) {
  return WriteRecord(fd, uroce_async_record{element, event_type, 0});
}

}  // namespace uroce::datapath
