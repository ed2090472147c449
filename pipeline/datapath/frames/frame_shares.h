// SPDX-License-Identifier: Apache-2.0
// Limits how many of a worker's frames a program and a user may hold. Frames that do not come back
// stop everybody, so frames that a program can keep from coming back are counted: per program, and
// per user, who may have many programs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace uroce::datapath {

/// How many frames may be held for one purpose.
struct FrameLimits {
  uint32_t of_worker = 0;  ///< 0: no frame may be held.
  uint32_t of_program = 0;
  uint32_t of_queue_pair = 0;
};

/// How many frames are held for one purpose.
struct FrameCounts {
  uint32_t all = 0;
  uint32_t of_user = 0;
  uint32_t of_program = 0;
  uint32_t of_queue_pair = 0;
};

/// How many more frames a user may hold. A user may hold as many as are free for all users.
constexpr uint32_t LeftToUser(const FrameLimits& limits, const FrameCounts& held) {
  return limits.of_worker - std::min(limits.of_worker, held.all + held.of_user);
}

/// Whether a queue pair may hold one more frame. Holders leave room for others: a user holds at
/// most as many frames as are free for all, a program and a queue pair at most as many as their
/// user may still take. So a program that is alone holds a third at most.
constexpr bool HasRoom(const FrameLimits& limits, const FrameCounts& held) {
  const uint32_t left = LeftToUser(limits, held);
  return held.of_program < std::min(limits.of_program, left) &&
         held.of_queue_pair < std::min(limits.of_queue_pair, left);
}

/// Frames that one user's programs hold at one worker. Those in copy jobs may outlive a program.
struct UserFrames {
  UserFrames(uint32_t its_uid, std::shared_ptr<std::atomic<uint32_t>> all)
      : uid(its_uid), all_waiting(std::move(all)) {}

  const uint32_t uid;
  uint32_t kept = 0;                                         ///< See KeptFramePool.
  std::atomic<uint32_t> waiting{0};                          ///< See WaitingFrames.
  const std::shared_ptr<std::atomic<uint32_t>> all_waiting;  ///< The worker's total.
};

/// The frames that one program of a user holds at one worker.
struct ProgramFrames {
  std::shared_ptr<UserFrames> user;
  uint32_t kept = 0;
  uint32_t waiting = 0;
};

}  // namespace uroce::datapath
