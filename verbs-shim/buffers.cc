// SPDX-License-Identifier: Apache-2.0
// ibv_alloc_buf(3), ibv_free_buf(3). libibverbs allocates the buffer, whose structure is private to
// it; this library keeps its range.
#include "verbs-shim/buffers.h"

#include <pthread.h>

#include <cerrno>
#include <cstdint>

#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/support.h"

namespace uroce::shim {
namespace {

using AllocBuf = void*(ibv_pd* pd, size_t length, void** buffer);
using FreeBuf = void(void* buffer);
constinit RealFunction<AllocBuf> real_alloc_buf("ibv_alloc_buf", "IBVERBS_1.17");
constinit RealFunction<FreeBuf> real_free_buf("ibv_free_buf", "IBVERBS_1.17");

struct Buffer {
  const void* handle = nullptr;
  uintptr_t start = 0;
  size_t length = 0;
  const ibv_pd* pd = nullptr;
  Buffer* next = nullptr;
};

pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
Buffer* g_buffers = nullptr;

/// The place of the pointer to a buffer's entry, or to null. Under the mutex.
Buffer** FindPlace(const void* handle) {
  Buffer** place = &g_buffers;
  while (*place != nullptr && (*place)->handle != handle) place = &(*place)->next;
  return place;
}

void Forget(const void* handle) {
  const MutexLock lock(g_mutex);
  Buffer** const place = FindPlace(handle);
  Buffer* const found = *place;
  if (found == nullptr) return;
  *place = found->next;
  Free(found);
}

void* AllocateBuffer(ibv_pd* pd, size_t length, void** buffer) {
  auto* entry = Make<Buffer>();
  if (entry == nullptr) return FailWith(ENOMEM);
  void* const memory = real_alloc_buf.CallOr(nullptr, pd, length, buffer);
  if (memory == nullptr) {
    Free(entry);
    return FailWith(errno == ENOSYS ? EOPNOTSUPP : errno);
  }
  entry->handle = *buffer;
  entry->start = reinterpret_cast<uintptr_t>(memory);
  entry->length = length;
  entry->pd = pd;
  const MutexLock lock(g_mutex);
  entry->next = g_buffers;
  g_buffers = entry;
  return memory;
}

}  // namespace

bool MayRegister(const ibv_pd* pd, const void* buffer, const void* addr, size_t length) {
  const MutexLock lock(g_mutex);
  const Buffer* const found = *FindPlace(buffer);
  if (found == nullptr) return true;
  const uintptr_t offset = reinterpret_cast<uintptr_t>(addr) - found->start;
  return pd == found->pd && offset <= found->length && length <= found->length - offset;
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

// The names in C++ are ours: newer headers declare libibverbs' own with types of theirs.
void* ExportedAllocBuf(ibv_pd* pd, size_t length, void** buffer) __asm__("ibv_alloc_buf");
void ExportedFreeBuf(void* buffer) __asm__("ibv_free_buf");

UROCE_EXPORT void* ExportedAllocBuf(ibv_pd* pd, size_t length, void** buffer) {
  return IsOurs(pd->context) ? AllocateBuffer(pd, length, buffer)
                             : real_alloc_buf.CallOr(nullptr, pd, length, buffer);
}

UROCE_EXPORT void ExportedFreeBuf(void* buffer) {
  Forget(buffer);
  real_free_buf.Call(buffer);
}

}  // extern "C"
