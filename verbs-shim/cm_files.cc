// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/cm_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uroce::shim {
namespace {

/// The inode of a socket; 0: `fd` is no socket. Makes a direct system call, since libc's function
/// is hooked for these very files.
uint64_t InodeOf(int fd) {
  const ErrnoKeeper keeper;
  struct stat status;
  const long result = syscall(SYS_newfstatat, fd, "", &status, AT_EMPTY_PATH);
  return result == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

}  // namespace

constinit CmFiles::Chunk* CmFiles::chunks_[kChunks] = {};

bool CmFiles::Find(int fd, CmFile* file) {
  Chunk* chunk = ChunkOf(fd);
  if (chunk == nullptr) return false;
  Slot& slot = chunk->slots[static_cast<unsigned>(fd) % kChunkSlots];
  uint64_t inode = rings::LoadAcquire(slot.inode);
  if (inode == 0) return false;
  file->connection = rings::LoadRelaxed(slot.file.connection);
  file->handle = rings::LoadRelaxed(slot.file.handle);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (rings::LoadRelaxed(slot.inode) != inode) return false;  // Another's now, who is making it.
  if (InodeOf(fd) == inode) return true;
  // The fd is closed and its number reused. Its entry is removed, unless a new one was added.
  __atomic_compare_exchange_n(&slot.inode, &inode, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return false;
}

bool CmFiles::Add(int fd, const CmFile& file) {
  const unsigned number = static_cast<unsigned>(fd);
  Chunk* chunk = ChunkOf(fd);
  if (chunk == nullptr) chunk = MakeChunk(number / kChunkSlots);
  if (chunk == nullptr) return false;
  Slot& slot = chunk->slots[number % kChunkSlots];
  rings::StoreRelaxed(slot.inode, uint64_t{0});
  __atomic_thread_fence(__ATOMIC_RELEASE);
  rings::StoreRelaxed(slot.file.connection, file.connection);
  rings::StoreRelaxed(slot.file.handle, file.handle);
  rings::StoreRelease(slot.inode, InodeOf(fd));
  return true;
}

CmFiles::Chunk* CmFiles::MakeChunk(unsigned index) {
  if (index >= kChunks) return nullptr;
  auto* fresh = Make<Chunk>();
  if (fresh == nullptr) return nullptr;
  Chunk* expected = nullptr;
  if (__atomic_compare_exchange_n(&chunks_[index], &expected, fresh, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    return fresh;
  }
  Free(fresh);
  return expected;
}

}  // namespace uroce::shim
