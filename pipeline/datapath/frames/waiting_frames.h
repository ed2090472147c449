// SPDX-License-Identifier: Apache-2.0
// Frames that wait for a program's copy helper, or behind one that does. The program's memory can
// keep them for as long as it likes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "pipeline/datapath/frames/frame_shares.h"

namespace uroce::datapath {

/// How many frames of a worker wait. Packets that a queue pair keeps behind a copy job count, the
/// frames of the copy job, those that are batched with it, and payload that was prefetched.
/// The worker's thread, but for what JobFrames says.
class WaitingFrames {
 public:
  explicit WaitingFrames(const FrameLimits& limits);

  /// Whether one more may wait for `program`, of whose queue pairs one has `of_queue_pair`.
  bool HasRoom(const ProgramFrames& program, uint32_t of_queue_pair = 0) const {
    return all_->load(std::memory_order_relaxed) < ample_ ||
           datapath::HasRoom(limits_, Counts(program, of_queue_pair));
  }
  /// How many may wait for `program`, by what waits for all.
  uint32_t Most(const ProgramFrames& program) const {
    return std::min(limits_.of_program, LeftToUser(limits_, Counts(program, 0)));
  }
  static void Take(ProgramFrames& program, uint32_t count = 1);
  static void Give(ProgramFrames& program, uint32_t count = 1);

  /// For UserFrames.
  const std::shared_ptr<std::atomic<uint32_t>>& all() const { return all_; }

  /// What a copy job holds, from Begin until End, or until its job ends, on whatever thread: its
  /// program may have gone.
  class JobFrames {
   public:
    JobFrames() = default;
    JobFrames(const JobFrames&) = delete;
    JobFrames& operator=(const JobFrames&) = delete;
    ~JobFrames() { Release(); }
    void Begin(ProgramFrames& program, uint32_t frames);
    /// While `program`, which has begun it, is there. Worker.
    void End(ProgramFrames& program);

   private:
    void Release();

    std::shared_ptr<UserFrames> user_;
    uint32_t frames_ = 0;
  };

 private:
  FrameCounts Counts(const ProgramFrames& program, uint32_t of_queue_pair) const;

  const FrameLimits limits_;
  const uint32_t ample_;  ///< While fewer wait, each may have one more.
  const std::shared_ptr<std::atomic<uint32_t>> all_;
};

}  // namespace uroce::datapath
