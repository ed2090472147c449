// SPDX-License-Identifier: Apache-2.0
// Counts frames that wait for a program's copy helper, or behind one that does. Access to the
// program's memory can delay them for as long as the program likes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "pipeline/datapath/frames/frame_shares.h"

namespace uroce::datapath {

/// Counts the waiting frames of a worker: packets that a queue pair keeps behind a copy job, the
/// frames of the copy job, those that are batched with it, and payload that was prefetched. Used by
/// the worker's thread, except as JobFrames says.
class WaitingFrames {
 public:
  explicit WaitingFrames(const FrameLimits& limits);

  /// Whether one more may wait for a queue pair of `program` that has `of_queue_pair` already.
  bool HasRoom(const ProgramFrames& program, uint32_t of_queue_pair = 0) const {
    return all_->load(std::memory_order_relaxed) < ample_ ||
           datapath::HasRoom(limits_, Counts(program, of_queue_pair));
  }
  /// How many frames may wait for `program`, given the number that waits in all.
  uint32_t Most(const ProgramFrames& program) const {
    return std::min(limits_.of_program, LeftToUser(limits_, Counts(program, 0)));
  }
  static void Take(ProgramFrames& program, uint32_t count = 1);
  static void Give(ProgramFrames& program, uint32_t count = 1);

  /// The worker's total, for UserFrames.
  const std::shared_ptr<std::atomic<uint32_t>>& all() const { return all_; }

  /// The frames that a copy job holds, from Begin until End or until the job is destroyed, which
  /// may happen on any thread and after the program has gone.
  class JobFrames {
   public:
    JobFrames() = default;
    JobFrames(const JobFrames&) = delete;
    JobFrames& operator=(const JobFrames&) = delete;
    ~JobFrames() { Release(); }
    void Begin(ProgramFrames& program, uint32_t frames);
    /// Called on the worker's thread while `program`, as given to Begin, still exists.
    void End(ProgramFrames& program);

   private:
    void Release();

    std::shared_ptr<UserFrames> user_;
    uint32_t frames_ = 0;
  };

 private:
  FrameCounts Counts(const ProgramFrames& program, uint32_t of_queue_pair) const;

  const FrameLimits limits_;
  const uint32_t ample_;  ///< While fewer wait in all, each queue pair may have one more.
  const std::shared_ptr<std::atomic<uint32_t>> all_;
};

}  // namespace uroce::datapath
