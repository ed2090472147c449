// SPDX-License-Identifier: Apache-2.0
// The rdma_cm ids of a program. When the daemon is gone, the shim makes their last events itself.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "pipeline/shm/rings/shared_word.h"

namespace uroce::shim {

/// The ids of one connection. Any thread, without locks: a program uses an id on one thread at a
/// time.
class CmIds {
 public:
  /// Ids from this number on are not recorded. The daemon gives lower ids while it has any.
  static constexpr uint32_t kMost = 1u << 16;

  /// Records that the id belongs to `file`, and that its events carry `uid`, which is not 0.
  void Set(uint32_t id, uint32_t file, uint64_t uid);
  /// Records that the id belongs to another file from now on.
  void Move(uint32_t id, uint32_t file);
  void Forget(uint32_t id);
  /// Forgets one id of `file` and yields it. False: the file has no id.
  bool TakeOne(uint32_t file, uint32_t* id, uint64_t* uid);

 private:
  static constexpr uint32_t kChunkIds = 256;
  struct Id {
    uint64_t uid;  ///< 0: the id does not exist.
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

  Chunk* chunks_[kMost / kChunkIds] = {};  ///< Allocated when needed, never freed.
};

}  // namespace uroce::shim
