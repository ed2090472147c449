// SPDX-License-Identifier: Apache-2.0
// The ids of rdma_cm that a program has. When the daemon is gone, the shim makes their last events.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "pipeline/shm/rings/shared_word.h"

namespace uroce::shim {

/// Of one connection. Any thread, without locks: programs use an id on one thread at a time.
class CmIds {
 public:
  /// Ids above are not known; the daemon's are below while there is room.
  static constexpr uint32_t kMost = 1u << 16;

  /// The id belongs to `file`, and events of it carry `uid`, which is not 0.
  void Set(uint32_t id, uint32_t file, uint64_t uid);
  /// It belongs to another file from now on.
  void Move(uint32_t id, uint32_t file);
  void Forget(uint32_t id);
  /// Forgets an id of `file`. False: there is none.
  bool TakeOne(uint32_t file, uint32_t* id, uint64_t* uid);

 private:
  static constexpr uint32_t kChunkIds = 256;
  struct Id {
    uint64_t uid;  ///< 0: not there.
    uint32_t file;
  };
  struct Chunk {
    Id ids[kChunkIds];
  };

  Id* Find(uint32_t id) const {
    Chunk* chunk = id < kMost ? rings::LoadAcquire(chunks_[id / kChunkIds]) : nullptr;
    return chunk == nullptr ? nullptr : &chunk->ids[id % kChunkIds];
  }
  bool MakeChunk(uint32_t index);

  Chunk* chunks_[kMost / kChunkIds] = {};  ///< Made when needed, never freed.
};

}  // namespace uroce::shim
