// SPDX-License-Identifier: Apache-2.0
// Records which fds of the program are files of the connection manager.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "verbs-shim/daemon_connection.h"

namespace uroce::shim {

/// An open file of the connection manager, as the daemon knows it. Any thread. A copy may outlive
/// the file, but not its connection.
struct CmFile {
  DaemonConnection* connection = nullptr;
  uint32_t handle = 0;
};

/// The set of such fds. Async-signal-safe, without locks. The shim is not told when an fd is
/// closed, so each entry also has its socket's inode, which no other socket has while that one
/// lives.
class CmFiles {
 public:
  /// False for nearly all fds of nearly all programs. If true, ask Find.
  static bool MayHave(int fd) {
    const Chunk* chunk = ChunkOf(fd);
    return chunk != nullptr && rings::LoadRelaxed(chunk->slots[fd % kChunkSlots].inode) != 0;
  }
  /// Whether `fd` is a file of the connection manager. Keeps errno.
  static bool Find(int fd, CmFile* file);
  /// Adds `fd`, which the caller has just made. False: there is no room.
  static bool Add(int fd, const CmFile& file);

 private:
  struct Slot {
    uint64_t inode;  ///< 0: the fd is no such file.
    CmFile file;
  };
  static constexpr unsigned kChunkSlots = 256;
  static constexpr unsigned kChunks =
      4096;  ///< For 2^20 fds, the most that Linux gives by default.
  struct Chunk {
    Slot slots[kChunkSlots];
  };

  static Chunk* ChunkOf(int fd) {
    const unsigned index = static_cast<unsigned>(fd) / kChunkSlots;
    return index < kChunks ? rings::LoadAcquire(chunks_[index]) : nullptr;
  }
  static Chunk* MakeChunk(unsigned index);

  static Chunk* chunks_[kChunks];  ///< Allocated when needed, never freed.
};

}  // namespace uroce::shim
