// SPDX-License-Identifier: Apache-2.0
// Keeps frames that came behind a missing packet until their turn (pipeline/transport/README.md).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/datapath/frames/frame_shares.h"
#include "pipeline/wire/psn.h"

struct rte_mbuf;

namespace uroce::datapath {

/// Tells where in the pool the frames of one queue pair lie. Accessed only while it keeps any.
class KeptFrames {
 public:
  bool any() const { return count_ != 0; }

 private:
  friend class KeptFramePool;
  static constexpr uint32_t kWindow = 2048;  ///< transport::PacketSet::kWindow.
  static constexpr uint32_t kPerChunk = 64;
  static constexpr uint16_t kNone = 0;

  static uint32_t SlotOf(wire::Psn psn) { return psn.value() % kWindow / kPerChunk; }

  std::array<uint16_t, kWindow / kPerChunk> chunks_{};  ///< By PSN; kNone, or the index plus one.
  uint32_t count_ = 0;
};

/// All frames that a worker's queue pairs keep, in chunks of consecutive PSNs. The pool allocates
/// nothing after construction. One thread.
class KeptFramePool {
 public:
  explicit KeptFramePool(const FrameLimits& limits);

  /// Takes the frame. False: there is no room for it, or `psn` is kept already.
  [[nodiscard]] bool Keep(KeptFrames& kept, ProgramFrames& program, wire::Psn psn, rte_mbuf* frame);
  /// Returns the frame of `psn`, which leaves the pool; null when it is not kept.
  rte_mbuf* Take(KeptFrames& kept, ProgramFrames& program, wire::Psn psn);
  /// Frees all frames of one queue pair. Returns their number.
  uint32_t Drop(KeptFrames& kept, ProgramFrames& program);
  uint32_t count() const { return count_; }

 private:
  struct Chunk {
    std::array<rte_mbuf*, KeptFrames::kPerChunk> frames;
    uint32_t count;
  };

  void Count(KeptFrames& kept, ProgramFrames& program, int32_t change);
  Chunk& At(uint16_t number) { return chunks_[number - 1]; }
  uint16_t TakeChunk();
  void ReleaseIfEmpty(uint16_t& number);

  const FrameLimits limits_;
  std::unique_ptr<Chunk[]> chunks_;
  std::vector<uint16_t> free_;  ///< Numbers of chunks.
  uint32_t count_ = 0;
};

}  // namespace uroce::datapath
