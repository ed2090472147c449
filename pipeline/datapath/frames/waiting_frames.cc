// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/frames/waiting_frames.h"

#include <algorithm>
#include <utility>

namespace uroce::datapath {
namespace {

// When one program is alone, all waiting frames are its own: three times what any may hold is free.
constexpr uint32_t kSharesOfOne = 3;

void Add(UserFrames& user, uint32_t count) {
  user.waiting.fetch_add(count, std::memory_order_relaxed);
  user.all_waiting->fetch_add(count, std::memory_order_relaxed);
}

void Subtract(UserFrames& user, uint32_t count) {
  user.waiting.fetch_sub(count, std::memory_order_relaxed);
  user.all_waiting->fetch_sub(count, std::memory_order_relaxed);
}

}  // namespace

WaitingFrames::WaitingFrames(const FrameLimits& limits)
    : limits_(limits),
      ample_(std::min({limits.of_worker / kSharesOfOne, limits.of_program, limits.of_queue_pair})),
      all_(std::make_shared<std::atomic<uint32_t>>(0)) {}

FrameCounts WaitingFrames::Counts(const ProgramFrames& program, uint32_t of_queue_pair) const {
  return {.all = all_->load(std::memory_order_relaxed),
          .of_user = program.user->waiting.load(std::memory_order_relaxed),
          .of_program = program.waiting,
          .of_queue_pair = of_queue_pair};
}

void WaitingFrames::Take(ProgramFrames& program, uint32_t count) {
  program.waiting += count;
  Add(*program.user, count);
}

void WaitingFrames::Give(ProgramFrames& program, uint32_t count) {
  program.waiting -= count;
  Subtract(*program.user, count);
}

void WaitingFrames::JobFrames::Begin(ProgramFrames& program, uint32_t frames) {
  if (frames == 0) return;
  Take(program, frames);
  user_ = program.user;
  frames_ = frames;
}

void WaitingFrames::JobFrames::End(ProgramFrames& program) {
  program.waiting -= frames_;
  Release();
}

void WaitingFrames::JobFrames::Release() {
  if (user_ != nullptr) Subtract(*user_, std::exchange(frames_, 0));
  user_ = nullptr;
}

}  // namespace uroce::datapath
