// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/dma_buf.h"

#include <fcntl.h>
#include <linux/dma-buf.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "verbs-shim/memory/maps.h"
#include "verbs-shim/support.h"

namespace uroce::gpu {
namespace {

pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
DmaBuf* g_mapped = nullptr;

bool Holds(const DmaBuf& buffer, uint64_t address, uint64_t length_bytes) {
  return address >= buffer.start && address - buffer.start <= buffer.length_bytes &&
         length_bytes <= buffer.length_bytes - (address - buffer.start);
}

/// Begins or ends an access of the CPU. A program may have closed our fd among all that it does not
/// know, and may have opened another file with its number.
void Sync(const DmaBuf& buffer, uint64_t flags) {
  struct stat file = {};
  if (fstat(buffer.fd, &file) != 0 || file.st_ino != buffer.inode) return;
  dma_buf_sync sync = {.flags = flags};
  int result;
  do {
    result = ioctl(buffer.fd, DMA_BUF_IOCTL_SYNC, &sync);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
}

/// Returns null with errno.
DmaBuf* Describe(void* mapped, uint64_t length_bytes, int fd) {
  struct stat file = {};
  auto* const buffer = shim::Make<DmaBuf>();
  if (buffer == nullptr) return shim::FailWith(ENOMEM);
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0 || fstat(own, &file) != 0) {
    shim::Free(buffer);
    return nullptr;
  }
  *buffer = {.start = reinterpret_cast<uint64_t>(mapped),
             .length_bytes = length_bytes,
             .fd = own,
             .inode = file.st_ino,
             .next = nullptr};
  return buffer;
}

}  // namespace

bool IsDmaBuf(int fd) {
  constexpr decltype(statfs::f_type) kMagic = 0x444d4142;
  struct statfs file = {};
  return fstatfs(fd, &file) == 0 && file.f_type == kMagic;
}

DmaBuf* MapDmaBuf(int fd, uint64_t offset, uint64_t length_bytes, bool writes, uint64_t* address) {
  const off_t end = lseek(fd, 0, SEEK_END);
  if (length_bytes == 0 || end < 0 || offset > static_cast<uint64_t>(end) ||
      length_bytes > static_cast<uint64_t>(end) - offset) {
    return shim::FailWith(EINVAL);
  }
  // From the beginning: the drivers of many devices ignore the offset of a mapping.
  const uint64_t bytes = memory::PageUp(offset + length_bytes);
  void* const mapped =
      mmap(nullptr, bytes, PROT_READ | (writes ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) {
    const bool is_other = errno != EACCES && errno != ENOMEM;
    if (is_other) shim::Log("the CPU cannot access this DMA-buf: errno %d", errno);
    return is_other ? shim::FailWith(EOPNOTSUPP) : nullptr;
  }
  DmaBuf* const buffer = Describe(mapped, bytes, fd);
  if (buffer == nullptr) {
    const shim::ErrnoKeeper keeper;
    munmap(mapped, bytes);
    return nullptr;
  }
  madvise(mapped, bytes, MADV_DONTFORK);
  *address = buffer->start + offset;
  const shim::MutexLock lock(g_mutex);
  buffer->next = g_mapped;
  g_mapped = buffer;
  return buffer;
}

void UnmapDmaBuf(DmaBuf* buffer) {
  const shim::ErrnoKeeper keeper;
  {
    const shim::MutexLock lock(g_mutex);
    DmaBuf** place = &g_mapped;
    while (*place != nullptr && *place != buffer) place = &(*place)->next;
    if (*place != nullptr) *place = buffer->next;
  }
  munmap(reinterpret_cast<void*>(buffer->start), buffer->length_bytes);
  struct stat file = {};
  if (fstat(buffer->fd, &file) == 0 && file.st_ino == buffer->inode) close(buffer->fd);
  shim::Free(buffer);
}

const DmaBuf* FindDmaBuf(uint64_t address) {
  const shim::MutexLock lock(g_mutex);
  const DmaBuf* buffer = g_mapped;
  while (buffer != nullptr && !Holds(*buffer, address, 1)) buffer = buffer->next;
  return buffer;
}

bool CopyDmaBuf(const DmaBuf& buffer, bool to_device, uint64_t address, uint8_t* host,
                uint64_t length_bytes) {
  if (!Holds(buffer, address, length_bytes)) return false;
  auto* const there = reinterpret_cast<uint8_t*>(address);
  const uint64_t direction = to_device ? DMA_BUF_SYNC_WRITE : DMA_BUF_SYNC_READ;
  Sync(buffer, DMA_BUF_SYNC_START | direction);
  memcpy(to_device ? there : host, to_device ? host : there, length_bytes);
  Sync(buffer, DMA_BUF_SYNC_END | direction);
  return true;
}

}  // namespace uroce::gpu
