// SPDX-License-Identifier: Apache-2.0
// Queries the kernel for single mappings by address, which saves reading all mappings before them.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <cerrno>

#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {
namespace {

// struct procmap_query of Linux 6.11, whose header Debian 12 lacks.
struct ProcmapQuery {
  uint64_t size;
  uint64_t query_flags;
  uint64_t query_addr;
  uint64_t vma_start;
  uint64_t vma_end;
  uint64_t vma_flags;
  uint64_t vma_page_size;
  uint64_t vma_offset;
  uint64_t inode;
  uint32_t dev_major;
  uint32_t dev_minor;
  uint32_t vma_name_size;
  uint32_t build_id_size;
  uint64_t vma_name_addr;
  uint64_t build_id_addr;
};
static_assert(sizeof(ProcmapQuery) == 104);

constexpr uint64_t kQueryCommand = _IOWR('f', 17, ProcmapQuery);
constexpr uint64_t kReadable = 1, kWritable = 2, kExecutable = 4, kShared = 8;
constexpr uint64_t kCoveringOrNext = 16;

/// The mapping at or after `address`. Returns 0 or a negative errno, -ENOENT after the last
/// mapping.
int64_t Query(int64_t fd, uint64_t address, Vma& vma) {
  static char name[4096];
  ProcmapQuery query = {};
  query.size = sizeof(query);
  query.query_flags = kCoveringOrNext;
  query.query_addr = address;
  query.vma_name_size = sizeof(name);
  query.vma_name_addr = reinterpret_cast<uint64_t>(name);
  const int64_t result = SystemCall(SYS_ioctl, fd, kQueryCommand, &query);
  if (result < 0) return result;
  vma = {.start = query.vma_start,
         .end = query.vma_end,
         .file_offset = query.vma_offset,
         .device = MakeDevice(query.dev_major, query.dev_minor),
         .inode = query.inode,
         .readable = (query.vma_flags & kReadable) != 0,
         .writable = (query.vma_flags & kWritable) != 0,
         .executable = (query.vma_flags & kExecutable) != 0,
         .shared = (query.vma_flags & kShared) != 0,
         .kind = VmaKind::kFile};
  const size_t name_bytes = query.vma_name_size == 0 ? 0 : query.vma_name_size - 1;
  vma.kind = KindOf(vma, {name, name_bytes});
  return 0;
}

/// Below and above `region`, only mappings that adjoin it without a gap are queried.
int64_t QueryAll(int64_t fd, AddressRange region, AddressRange window, MappedArray<Vma>& vmas) {
  for (uint64_t address = window.start; address < window.end;) {
    Vma vma;
    const int64_t result = Query(fd, address, vma);
    if (result == -ENOENT) return 0;
    if (result < 0) return result;
    if (vma.start > address) {
      if (address >= region.end) return 0;
      if (vma.end <= region.start) {
        address = region.start;
        continue;
      }
    }
    if (vma.start >= window.end) return 0;
    if (!vmas.Append(vma)) return -ENOMEM;
    address = vma.end;
  }
  return 0;
}

}  // namespace

int QueryMaps(AddressRange region, AddressRange window, MappedArray<Vma>& vmas) {
  const int64_t fd = OpenFile("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return static_cast<int>(-fd);
  const int64_t result = QueryAll(fd, region, window, vmas);
  SystemCall(SYS_close, fd);
  return static_cast<int>(-result);
}

int FindMaps(AddressRange region, AddressRange window, MappedArray<Vma>& vmas) {
  vmas.Clear();
  if (QueryMaps(region, window, vmas) == 0) return 0;
  vmas.Clear();
  return ReadMaps(window, vmas);
}

}  // namespace uroce::memory
