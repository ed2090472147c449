// SPDX-License-Identifier: Apache-2.0
// The results of a look into a program's rings.
#pragma once

#include <cstdint>

#include "pipeline/shm/rings/work_queue.h"

namespace uroce::datapath {

enum class PullResult : uint8_t {
  kDrained,  ///< Nothing waits.
  kNoRoom,   ///< The transport is full: pull again when it has completed some.
  kMore,     ///< One was taken or the bound was reached: there may be more.
  kCorrupt,  ///< The program's index is impossible.
};

/// The result of a pull that found nothing to take. Range: not kReady.
constexpr PullResult NothingTaken(rings::QueueState state) {
  return state == rings::QueueState::kCorrupt ? PullResult::kCorrupt : PullResult::kDrained;
}

}  // namespace uroce::datapath
