// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/frames/waiting_frames.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "pipeline/transport/selective_repeat.h"

namespace uroce::datapath {

CrossWorkerQueues::CrossWorkerQueues(uint32_t workers, std::function<void(uint32_t)> wake)
    : workers_(workers), wake_(std::move(wake)), owners_(workers) {
  for (uint32_t i = 0; i < workers * workers; ++i) {
    queues_.push_back(std::make_unique<drivers::FrameQueue>(kDepthFrames));
  }
}

CrossWorkerLink::CrossWorkerLink(CrossWorkerQueues* queues, uint32_t index)
    : queues_(queues), index_(index), workers_(queues == nullptr ? 1 : queues->workers()) {}

// Uses the mbuf's port field, which a driver sets to the receiving port and no code reads.
bool CrossWorkerLink::Give(uint32_t to, uint16_t position, rte_mbuf* frame) {
  frame->port = position;
  if (queues_->Queue(index_, to).Put(&frame, 1) == 0) return false;
  WantWake(to);
  return true;
}

uint16_t CrossWorkerLink::PositionOf(const rte_mbuf& frame) { return frame.port; }

void CrossWorkerLink::WakeAll() {
  for (WorkerSet rest = std::exchange(to_wake_, 0); rest != 0; rest &= rest - 1) {
    queues_->Wake(static_cast<uint32_t>(std::countr_zero(rest)));
  }
}

uint16_t CrossWorkerLink::Take(rte_mbuf** frames, uint16_t count) {
  uint16_t taken = 0;
  uint32_t from = first_;
  for (uint32_t i = 0; i < workers_ && taken < count; ++i) {
    if (from != index_) taken += queues_->Queue(from, index_).Take(frames + taken, count - taken);
    from = from + 1 < workers_ ? from + 1 : 0;
  }
  first_ = first_ + 1 < workers_ ? first_ + 1 : 0;
  return taken;
}

bool CrossWorkerLink::empty() const {
  for (uint32_t from = 0; from < workers_; ++from) {
    if (from != index_ && !queues_->Queue(from, index_).empty()) return false;
  }
  return true;
}

namespace {

/// Chunk numbers have 16 bits. Each frame may lie in its own chunk.
constexpr uint32_t kMostChunks = UINT16_MAX;

}  // namespace

KeptFramePool::KeptFramePool(const FrameLimits& limits) : limits_(limits) {
  static_assert(KeptFrames::kWindow == transport::PacketSet::kWindow);
  const uint32_t chunks = std::min(limits.of_worker, kMostChunks);
  // The memory is not initialized: most of it is never touched.
  chunks_ = std::unique_ptr<Chunk[]>(new Chunk[chunks]);
  free_.reserve(chunks);
  for (uint32_t number = chunks; number != 0; --number) {
    free_.push_back(static_cast<uint16_t>(number));
  }
}

void KeptFramePool::Count(KeptFrames& kept, ProgramFrames& program, int32_t change) {
  for (uint32_t* count : {&kept.count_, &program.kept, &program.user->kept, &count_}) {
    *count += static_cast<uint32_t>(change);
  }
}

bool KeptFramePool::Keep(KeptFrames& kept, ProgramFrames& program, wire::Psn psn, rte_mbuf* frame) {
  const FrameCounts held{.all = count_,
                         .of_user = program.user->kept,
                         .of_program = program.kept,
                         .of_queue_pair = kept.count_};
  if (!HasRoom(limits_, held)) return false;
  uint16_t& number = kept.chunks_[KeptFrames::SlotOf(psn)];
  if (number == KeptFrames::kNone) number = TakeChunk();
  if (number == KeptFrames::kNone) return false;
  Chunk& chunk = At(number);
  rte_mbuf*& place = chunk.frames[psn.value() % KeptFrames::kPerChunk];
  if (place != nullptr) return false;
  place = frame;
  ++chunk.count;
  Count(kept, program, 1);
  return true;
}

rte_mbuf* KeptFramePool::Take(KeptFrames& kept, ProgramFrames& program, wire::Psn psn) {
  uint16_t& number = kept.chunks_[KeptFrames::SlotOf(psn)];
  if (number == KeptFrames::kNone) return nullptr;
  Chunk& chunk = At(number);
  rte_mbuf*& place = chunk.frames[psn.value() % KeptFrames::kPerChunk];
  rte_mbuf* const frame = place;
  if (frame == nullptr) return nullptr;
  place = nullptr;
  --chunk.count;
  Count(kept, program, -1);
  ReleaseIfEmpty(number);
  return frame;
}

uint32_t KeptFramePool::Drop(KeptFrames& kept, ProgramFrames& program) {
  const uint32_t dropped = kept.count_;
  for (uint16_t& number : kept.chunks_) {
    if (number == KeptFrames::kNone) continue;
    for (rte_mbuf*& frame : At(number).frames) {
      if (frame != nullptr) rte_pktmbuf_free(frame);
      frame = nullptr;
    }
    At(number).count = 0;
    ReleaseIfEmpty(number);
  }
  Count(kept, program, -static_cast<int32_t>(dropped));
  return dropped;
}

uint16_t KeptFramePool::TakeChunk() {
  if (free_.empty()) return KeptFrames::kNone;
  const uint16_t number = free_.back();
  free_.pop_back();
  At(number) = {};
  return number;
}

void KeptFramePool::ReleaseIfEmpty(uint16_t& number) {
  if (At(number).count != 0) return;
  free_.push_back(number);
  number = KeptFrames::kNone;
}

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
  program_ = &program;
  user_ = program.user;
  Add(frames);
}

void WaitingFrames::JobFrames::Add(uint32_t frames) {
  Take(*program_, frames);
  frames_ += frames;
}

void WaitingFrames::JobFrames::End() {
  program_->waiting -= frames_;
  Release();
}

void WaitingFrames::JobFrames::Release() {
  if (user_ != nullptr) Subtract(*user_, std::exchange(frames_, 0));
  user_ = nullptr;
}

}  // namespace uroce::datapath
