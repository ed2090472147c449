// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/frames/kept_frames.h"

#include <rte_mbuf.h>

#include <algorithm>

#include "pipeline/transport/packet_set.h"

namespace uroce::datapath {
namespace {

/// Chunk numbers have 16 bits. Each frame may lie in a chunk of its own.
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

}  // namespace uroce::datapath
