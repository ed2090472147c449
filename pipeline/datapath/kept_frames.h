// SPDX-License-Identifier: Apache-2.0
// Frames that queue pairs keep behind a hole until it is their turn (transport/README.md).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/wire/psn.h"

struct rte_mbuf;

namespace uroce::datapath {

/// How many frames may be kept.
struct KeptLimits {
  uint32_t of_worker = 6144;  ///< 0: none; all recover by go-back-N.
  uint32_t of_program = 4096;
  uint32_t of_queue_pair = 2048;
};

/// What one queue pair keeps: where in the pool its frames lie. Touched only while it keeps any.
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

/// All that a worker's queue pairs keep, in chunks of consecutive PSNs. Nothing is allocated after
/// construction. One thread.
///
/// Who keeps much leaves room for others, beyond the fixed limits: a program keeps at most as many
/// as are free for all, and a queue pair at most as many as its program may keep besides.
class KeptFramePool {
 public:
  explicit KeptFramePool(const KeptLimits& limits);

  /// Takes the frame. False: there is no room for it, or `psn` is kept already. `of_program` counts
  /// what its program keeps.
  [[nodiscard]] bool Keep(KeptFrames& kept, uint32_t& of_program, wire::Psn psn, rte_mbuf* frame);
  /// Gives it back; null: it is not there.
  rte_mbuf* Take(KeptFrames& kept, uint32_t& of_program, wire::Psn psn);
  /// Frees all of one queue pair. Returns how many.
  uint32_t Drop(KeptFrames& kept, uint32_t& of_program);
  uint32_t count() const { return count_; }

 private:
  struct Chunk {
    std::array<rte_mbuf*, KeptFrames::kPerChunk> frames;
    uint32_t count;
  };

  bool HasRoom(uint32_t of_queue_pair, uint32_t of_program) const;
  Chunk& At(uint16_t number) { return chunks_[number - 1]; }
  uint16_t TakeChunk();
  void ReleaseIfEmpty(uint16_t& number);

  const KeptLimits limits_;
  std::unique_ptr<Chunk[]> chunks_;
  std::vector<uint16_t> free_;  ///< Numbers of chunks.
  uint32_t count_ = 0;
};

}  // namespace uroce::datapath
