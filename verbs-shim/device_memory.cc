// SPDX-License-Identifier: Apache-2.0
// Device memory: ibv_alloc_dm(3). The memory is a memfd that the program maps, and that the daemon
// maps too once it is registered. Imports in the same process share the mapping.
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs-shim/memory/backing_file.h"
#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory_region.h"
#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

namespace uroce::shim {
namespace {

UROCE_REAL(ibv_import_dm, "IBVERBS_1.13");
UROCE_REAL(ibv_unimport_dm, "IBVERBS_1.13");

constexpr uint64_t kAccessBytes = 4;    // Offsets and lengths are multiples of it.
constexpr uint32_t kLogPageBytes = 12;  // The greatest alignment that may be requested.

/// The bytes of one device memory, which imports share.
struct DeviceBytes {
  uint8_t* start;
  uint64_t length;
  uint32_t handle;
  uint32_t objects;  ///< How many ibv_dm use it. Under g_mutex.
  uint32_t regions;  ///< Memory regions of it. Atomic.
  const Device* device;
  DeviceBytes* next;
};

struct DeviceMemory {
  ibv_dm verbs;
  DeviceBytes* bytes;
};

pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
DeviceBytes* g_bytes = nullptr;
uint32_t g_last_handle = 0;

DeviceMemory* Ours(ibv_dm* dm) { return reinterpret_cast<DeviceMemory*>(dm); }
using shim::Ours;

uint64_t MappedBytes(uint64_t length) { return memory::PageUp(length); }

uint8_t* Map(uint64_t length, int flags, int fd) {
  void* start =
      mmap(nullptr, MappedBytes(length), PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
  return start == MAP_FAILED ? nullptr : static_cast<uint8_t*>(start);
}

/// Maps a new file. Null, with errno, when the system has no memory. Where the program may have no
/// such file, it is one without a name, which the daemon may not be able to map too.
uint8_t* MapFile(uint64_t length) {
  if (!memory::AllowsFileOf(MappedBytes(length))) return Map(length, MAP_ANONYMOUS, -1);
  const int fd = memfd_create("uroce-device-memory", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  uint8_t* start = nullptr;
  if (ftruncate(fd, static_cast<off_t>(MappedBytes(length))) == 0) start = Map(length, 0, fd);
  const ErrnoKeeper keeper;
  close(fd);
  return start;
}

DeviceBytes* MakeBytes(const Device& device, uint64_t length) {
  auto* bytes = Make<DeviceBytes>();
  if (bytes == nullptr) return FailWith(ENOMEM);
  bytes->start = MapFile(length);
  if (bytes->start == nullptr) {
    Free(bytes);
    return nullptr;
  }
  bytes->length = length;
  bytes->device = &device;
  const MutexLock lock(g_mutex);
  bytes->handle = ++g_last_handle;
  bytes->next = g_bytes;
  g_bytes = bytes;
  return bytes;
}

/// Removes one object; with the last one the bytes are freed.
void DropBytes(DeviceBytes* bytes) {
  {
    const MutexLock lock(g_mutex);
    if (--bytes->objects != 0) return;
    DeviceBytes** place = &g_bytes;
    while (*place != bytes) place = &(*place)->next;
    *place = bytes->next;
  }
  munmap(bytes->start, MappedBytes(bytes->length));
  Free(bytes);
}

int CheckPiece(const DeviceMemory& dm, uint64_t offset, size_t length) {
  if (offset % kAccessBytes != 0 || length % kAccessBytes != 0) return EINVAL;
  return offset <= dm.bytes->length && length <= dm.bytes->length - offset ? 0 : EINVAL;
}

int CopyTo(ibv_dm* dm, uint64_t offset, const void* from, size_t length) {
  const int error = CheckPiece(*Ours(dm), offset, length);
  if (error == 0) memcpy(Ours(dm)->bytes->start + offset, from, length);
  return error;
}

int CopyFrom(void* to, ibv_dm* dm, uint64_t offset, size_t length) {
  const int error = CheckPiece(*Ours(dm), offset, length);
  if (error == 0) memcpy(to, Ours(dm)->bytes->start + offset, length);
  return error;
}

/// Makes an object over `bytes`, which count this object already.
ibv_dm* MakeObject(ibv_context* context, DeviceBytes* bytes) {
  auto* dm = Make<DeviceMemory>();
  if (dm == nullptr) {
    DropBytes(bytes);
    return FailWith(ENOMEM);
  }
  dm->bytes = bytes;
  dm->verbs.context = context;
  dm->verbs.memcpy_to_dm = &CopyTo;
  dm->verbs.memcpy_from_dm = &CopyFrom;
  dm->verbs.handle = bytes->handle;
  return &dm->verbs;
}

void FreeObject(ibv_dm* dm) {
  DropBytes(Ours(dm)->bytes);
  Free(Ours(dm));
}

ibv_dm* Import(ibv_context* context, uint32_t handle) {
  DeviceBytes* bytes;
  {
    const MutexLock lock(g_mutex);
    bytes = g_bytes;
    while (bytes != nullptr && bytes->handle != handle) bytes = bytes->next;
    if (bytes == nullptr || bytes->device != Ours(context)->device) return FailWith(ENOENT);
    ++bytes->objects;
  }
  return MakeObject(context, bytes);
}

}  // namespace

ibv_dm* AllocDm(ibv_context* context, ibv_alloc_dm_attr* attributes) {
  if (attributes->comp_mask != 0) return FailWith(EINVAL);
  if (attributes->length == 0 || attributes->log_align_req > kLogPageBytes) return FailWith(EINVAL);
  if (attributes->length > kMaxDeviceMemoryBytes) return FailWith(ENOMEM);
  DeviceBytes* bytes = MakeBytes(*Ours(context)->device, attributes->length);
  if (bytes == nullptr) return nullptr;
  bytes->objects = 1;
  return MakeObject(context, bytes);
}

int FreeDm(ibv_dm* dm) {
  if (__atomic_load_n(&Ours(dm)->bytes->regions, __ATOMIC_ACQUIRE) != 0) return EBUSY;
  FreeObject(dm);
  return 0;
}

ibv_mr* RegDmMr(ibv_pd* pd, ibv_dm* dm, uint64_t dm_offset, size_t length, unsigned int access) {
  DeviceBytes& bytes = *Ours(dm)->bytes;
  // Its addresses begin at 0, whatever the offset is: ibv_alloc_dm(3).
  if ((access & IBV_ACCESS_ZERO_BASED) == 0 || (access & IBV_ACCESS_ON_DEMAND) != 0 ||
      CheckPiece(*Ours(dm), dm_offset, length) != 0) {
    return FailWith(EINVAL);
  }
  __atomic_fetch_add(&bytes.regions, 1, __ATOMIC_ACQUIRE);
  ibv_mr* mr = RegisterRegion(pd, nullptr,
                              {.pd = pd->handle,
                               .access = access,
                               .addr = reinterpret_cast<uintptr_t>(bytes.start) + dm_offset,
                               .length = length,
                               .iova = 0});
  if (mr == nullptr) {
    __atomic_fetch_sub(&bytes.regions, 1, __ATOMIC_RELEASE);
  } else {
    Ours(mr)->users_of_memory = &bytes.regions;
  }
  return mr;
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

UROCE_EXPORT ibv_dm* ibv_import_dm(ibv_context* context, uint32_t handle) {
  return IsOurs(context) ? Import(context, handle)
                         : real_ibv_import_dm.CallOr(nullptr, context, handle);
}

UROCE_EXPORT void ibv_unimport_dm(ibv_dm* dm) {
  if (!IsOurs(dm->context)) return real_ibv_unimport_dm.Call(dm);
  FreeObject(dm);
}

}  // extern "C"
