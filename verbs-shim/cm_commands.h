// SPDX-License-Identifier: Apache-2.0
// Files of the connection manager: which fds of the program they are, and how they are opened and
// written on behalf of the program.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "verbs-shim/daemon_connection.h"

namespace uroce::shim {

// ---- Which fds of the program are such files ----

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

// ---- Opening and writing them ----

/// Result of OpenCm: the shim does not serve the node, and the caller opens what has its name.
inline constexpr int kNotOurs = -2;

/// Whether `path` is the node of the connection manager. Async-signal-safe.
bool IsCmNode(const char* path);

/// Acts as open(2) on the node: an fd, -1 with errno, or kNotOurs without a daemon or with
/// UROCE_CM=off.
int OpenCm(int flags);

/// Acts as write(2) of a command to `file`, whose fd is `fd`. Answers go where the command points
/// to.
ssize_t WriteCm(const CmFile& file, int fd, const void* data, size_t size_bytes);

}  // namespace uroce::shim
